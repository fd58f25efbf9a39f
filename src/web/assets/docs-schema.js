// Schemas of the API reference: what a value consists of, and an example of it.

import { h } from "./dom.js";

/** Follows `$ref` within a document; fields beside it win. */
export const resolver = (api) => (node) => {
  if (!node?.$ref) return node ?? {};
  const target = node.$ref.slice(2).split("/").reduce((found, key) => found?.[key], api);
  return { ...target, ...node, $ref: undefined };
};

const nameOf = (schema) => schema.$ref?.split("/").pop();

/** The schema without the alternative null, and whether null is allowed. */
function withoutNull(schema) {
  const all = schema.oneOf ?? schema.anyOf;
  if (all) {
    const rest = all.filter((one) => one.type !== "null");
    const description = schema.description ?? rest[0]?.description;
    if (rest.length === 1) return [{ ...rest[0], description }, all.length > 1];
    return [{ ...schema, oneOf: rest }, rest.length < all.length];
  }
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((type) => type !== "null");
    return [{ ...schema, type: types.length === 1 ? types[0] : types }, types.length < schema.type.length];
  }
  return [schema, false];
}

function typeName(schema, resolve) {
  const [plain, nullable] = withoutNull(schema);
  const whole = resolve(plain);
  const name = (() => {
    if (whole.enum) return whole.enum.map((value) => JSON.stringify(value)).join(" | ");
    if (whole.const !== undefined) return JSON.stringify(whole.const);
    if (whole.type === "array") return `array of ${typeName(whole.items ?? {}, resolve)}`;
    if (plain.oneOf) return plain.oneOf.map((one) => typeName(one, resolve)).join(" or ");
    return nameOf(plain) ?? [whole.type ?? "any value"].flat().join(" or ");
  })();
  return nullable ? `${name} or null` : name;
}

function limits(schema) {
  const of = { minimum: "at least", maximum: "at most", minLength: "characters at least", maxLength: "characters at most", minItems: "items at least", maxItems: "items at most", pattern: "pattern", format: "format" };
  const said = Object.entries(of).filter(([key]) => schema[key] !== undefined).map(([key, words]) => `${words} ${schema[key]}`);
  if (schema.default !== undefined) said.push(`default ${JSON.stringify(schema.default)}`);
  return said.join(", ");
}

/** The alternatives or the object that a value contains below arrays and null, if any. */
function inner(schema, resolve) {
  const whole = resolve(withoutNull(schema)[0]);
  if (whole.type === "array") return inner(whole.items ?? {}, resolve);
  if (whole.properties || whole.oneOf || whole.allOf) return whole;
  return typeof whole.additionalProperties === "object" ? inner(whole.additionalProperties, resolve) : null;
}

function members(schema, resolve, prose, lazily) {
  const alternatives = schema.allOf ?? schema.oneOf;
  const properties = Object.entries(schema.properties ?? {});
  return h("div",
    alternatives && alternatives.map((one) => schemaView(one, resolve, prose, lazily)),
    properties.length > 0 && h("dl.schema", properties.map(([name, value]) => [
      h("dt", h("code", name), schema.required?.includes(name) && h("span.muted", " required")),
      h("dd", schemaView(value, resolve, prose, lazily)),
    ])));
}

/** The type, description and limits of a value; its fields open on demand. */
export function schemaView(schema, resolve, prose, lazily) {
  const plain = withoutNull(schema)[0];
  const whole = resolve(plain);
  const content = inner(schema, resolve);
  return h("div",
    h("p", h("span.muted", [typeName(schema, resolve), limits(whole)].filter(Boolean).join(", "))),
    prose(schema.description ?? plain.description ?? whole.description),
    content && lazily(h("details", h("summary", "Fields")), () => members(content, resolve, prose, lazily)));
}

function sampleOf(schema, resolve, depth) {
  const whole = resolve(withoutNull(schema)[0]);
  if (whole.example !== undefined) return whole.example;
  if (whole.examples?.length) return whole.examples[0];
  if (whole.default !== undefined) return whole.default;
  if (whole.const !== undefined) return whole.const;
  if (whole.enum) return whole.enum[0];
  if (whole.oneOf) return sampleOf(whole.oneOf[0], resolve, depth + 1);
  if (whole.allOf) return Object.assign({}, ...whole.allOf.map((one) => sampleOf(one, resolve, depth + 1)));
  switch ([whole.type].flat()[0]) {
    case "array": return whole.minItems && depth < 6 ? [sampleOf(whole.items ?? {}, resolve, depth + 1)] : [];
    case "integer": case "number": return whole.minimum ?? 0;
    case "boolean": return false;
    case "string": return "";
    default: {
      const required = Object.entries(whole.properties ?? {}).filter(([name]) => whole.required?.includes(name));
      return depth < 6 ? Object.fromEntries(required.map(([name, value]) => [name, sampleOf(value, resolve, depth + 1)])) : {};
    }
  }
}

/** An example of a request body: the one of the document, or the fields that are required. */
export const exampleOf = ({ example, examples, schema }, resolve) => example ?? Object.values(examples ?? {})[0]?.value ?? sampleOf(schema ?? {}, resolve, 0);
