//! The walls between the end users of a space: a request that names the user `a` never gets, changes
//! or sends to a model what belongs to the user `b`, whichever id or path it names.

use std::collections::{BTreeMap, BTreeSet};

use memoir::http::openapi::{Version, to_json};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{Reply, TestApp, send};
use crate::support::database::TestDatabase;
use crate::workbench::Bench;
use Answer::{Empty, NotFound, Own, Refused, Taken};

/// A request by `a` that names something of `b` in one field, as a line of the table.
struct Wall {
    route: &'static str,
    /// The field with the id or path; `user_id` if the route takes no other.
    field: &'static str,
    query: &'static str,
    /// The id for the path, if the path has one, and the body.
    sent: &'static str,
    answer: Answer,
}

/// What the request gets.
#[derive(Debug, Clone, Copy)]
enum Answer {
    NotFound,
    /// The id is taken, which is all that `a` learns.
    Taken,
    /// A field is invalid, as for an id that does not exist.
    Refused,
    /// A success in which this member is empty.
    Empty(&'static str),
    /// A success that uses, stores or returns only what is `a`'s own: what `b` owns has no effect.
    Own,
}

/// Every route that takes a user, and every id and path that it takes besides: route, field, query,
/// body, answer. `{b.…}` and `{a.…}` stand for ids.
fn walls() -> Vec<Wall> {
    let lines = include_str!("user_walls.tsv").lines();
    let read = |line: &'static str| {
        let columns: Vec<&str> = line.split('\t').collect();
        let [route, field, query, sent, answer] = columns[..] else {
            panic!("five columns: {line}");
        };
        Wall {
            route,
            field,
            query,
            sent,
            answer: match answer.split_once(' ').unwrap_or((answer, "")) {
                ("not", "found") => NotFound,
                ("taken", "") => Taken,
                ("refused", "") => Refused,
                ("empty", member) => Empty(member),
                ("own", "") => Own,
                _ => panic!("unknown answer: {line}"),
            },
        }
    };
    lines.map(read).collect()
}

/// A word that is only in texts, names and titles of `b`.
const SECRET: &str = "quokka";

#[tokio::test]
async fn a_user_never_gets_what_belongs_to_another() {
    for database in TestDatabase::each().await {
        let bench = Bench::on(database, &[("LLM__MODELS__ANALYZE", "local:embedded")]).await;
        let ids = prepare(&bench).await;
        let before = everything_of_b(&bench.test.app, &ids).await;
        bench.test.model.clear();

        let mut holes = Vec::new();
        for wall in &walls() {
            let reply = request(&bench.test.app, wall, &ids).await;
            let place = format!("{} {} {}{}", wall.route, wall.field, wall.query, wall.sent);
            if let Err(fault) = check(&reply, wall.answer) {
                holes.push(format!(
                    "{place}\n    {fault}: {} {}",
                    reply.status, reply.text
                ));
            }
            for seen in bench.test.model.requests() {
                if seen.user.to_lowercase().contains(SECRET) {
                    holes.push(format!(
                        "{place}\n    the stage {} read it: {}",
                        seen.stage, seen.user
                    ));
                }
            }
            bench.test.model.clear();
        }

        assert!(holes.is_empty(), "{}", holes.join("\n"));
        assert_eq!(everything_of_b(&bench.test.app, &ids).await, before);
        bench.test.app.finish().await;
    }
}

/// A message of `a` about their own file is not dropped because `b` has a file of the same path that
/// the request turns off.
#[tokio::test]
async fn a_source_of_another_user_cannot_be_turned_off() {
    for database in TestDatabase::each().await {
        let bench = Bench::on(database, &[("LLM__MODELS__ANALYZE", "local:embedded")]).await;
        let ids = prepare(&bench).await;
        let thread = &ids["a.thread"];
        let said =
            json!({"content": "The hut in my notes has a red door.", "file_path": "/notes.md"});
        bench
            .test
            .app
            .post(&format!("/v1/threads/{thread}/messages"), &said)
            .await;

        let reasons = async |off: &str| {
            let asked =
                json!({"query": "Which door has the hut?", "k": 0, "off_source_ids": [off]});
            let path = format!("/v1/threads/{thread}/episodic?user_id=a");
            let reply = bench.test.app.post(&path, &asked).await.json();
            let items = reply["items"].as_array().unwrap().clone();
            let door = items
                .into_iter()
                .find(|one| one["content"].to_string().contains("red door"));
            door.unwrap()["reason"].as_str().unwrap().to_owned()
        };
        assert_eq!(
            reasons(&ids["a.source"]).await,
            "dropped: source file is OFF"
        );
        assert_ne!(
            reasons(&ids["b.notes"]).await,
            "dropped: source file is OFF"
        );
        bench.test.app.finish().await;
    }
}

/// A new route that takes a user, or a new id of such a route, needs a line in the table.
#[test]
fn the_table_names_every_route_that_takes_a_user_and_every_id() {
    let document: Value = serde_json::from_str(&to_json(Version::V3_1)).unwrap();
    let walls = walls();
    let mut missing = Vec::new();
    for (route, fields) in routes_with_a_user(&document) {
        let known: BTreeSet<&str> = walls
            .iter()
            .filter(|wall| wall.route == route)
            .map(|wall| wall.field)
            .collect();
        if known.is_empty() {
            missing.push(route.clone());
        }
        let ids = fields.into_iter().filter(|field| names_something(field));
        missing.extend(
            ids.filter(|id| !known.contains(id.as_str()))
                .map(|id| format!("{route}: {id}")),
        );
    }

    assert!(
        missing.is_empty(),
        "add to user_walls.tsv:\n{}",
        missing.join("\n")
    );
    let routes: BTreeSet<String> = routes_with_a_user(&document).into_keys().collect();
    for wall in &walls {
        assert!(routes.contains(wall.route), "{} takes no user", wall.route);
    }
}

/// Each route with `user_id`, and all fields of its path, query and body.
fn routes_with_a_user(document: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let mut routes = BTreeMap::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let mut fields = BTreeSet::new();
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                if parameter["in"] != "header" {
                    fields.insert(parameter["name"].as_str().unwrap().to_owned());
                }
            }
            let bodies = operation["requestBody"]["content"].as_object();
            for body in bodies.into_iter().flat_map(|content| content.values()) {
                add_fields(document, &body["schema"], "", &mut fields);
            }

            let takes_user = |field: &String| {
                let name = field.rsplit('.').next().unwrap();
                name == "user_id" || name == "userId"
            };
            if fields.iter().any(takes_user) {
                routes.insert(format!("{} {path}", method.to_uppercase()), fields);
            }
        }
    }
    routes
}

fn add_fields(document: &Value, schema: &Value, prefix: &str, fields: &mut BTreeSet<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        let target = document.pointer(name.trim_start_matches('#')).unwrap();
        return add_fields(document, target, prefix, fields);
    }
    for part in ["allOf", "oneOf", "anyOf"] {
        for one in schema[part].as_array().into_iter().flatten() {
            add_fields(document, one, prefix, fields);
        }
    }
    if !schema["items"].is_null() {
        add_fields(
            document,
            &schema["items"],
            &format!("{}[].", prefix.trim_end_matches('.')),
            fields,
        );
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let name = format!("{prefix}{name}");
        add_fields(document, property, &format!("{name}."), fields);
        fields.insert(name);
    }
}

/// Whether a field names something that a user may own.
fn names_something(field: &str) -> bool {
    let name = field.rsplit('.').next().unwrap();
    let is_user = name == "user_id" || name == "userId";
    let is_id =
        name == "id" || name.ends_with("_id") || name.ends_with("_ids") || name.ends_with("Id");
    let is_place =
        name == "path" || name.ends_with("_path") || name == "cursor" || name == "supersedes";
    !is_user && (is_id || is_place)
}

fn check(reply: &Reply, answer: Answer) -> Result<(), String> {
    let status = reply.status.as_u16();
    let wanted = match answer {
        NotFound => status == 404,
        Taken => status == 409,
        Refused => status == 400 || status == 422,
        Empty(_) | Own => (200..300).contains(&status),
    };
    if !wanted {
        return Err(format!("not {answer:?}"));
    }
    if let Empty(pointer) = answer
        && reply
            .json()
            .pointer(pointer)
            .and_then(Value::as_array)
            .is_none_or(|items| !items.is_empty())
    {
        return Err(format!("{pointer} is not empty"));
    }
    if reply.text.to_lowercase().contains(SECRET) {
        return Err("the response tells it".to_owned());
    }
    Ok(())
}

type Ids = BTreeMap<String, String>;

/// A body is what is sent, after the id for the path if the path has one.
async fn request(app: &TestApp, wall: &Wall, ids: &Ids) -> Reply {
    let filled = |template: &str| {
        let mut text = template.to_owned();
        for (name, id) in ids {
            text = text.replace(&format!("{{{name}}}"), id);
        }
        text
    };
    let (method, path) = wall.route.split_once(' ').unwrap();
    let (mut path, mut body) = (path.to_owned(), filled(wall.sent));
    if let (Some(from), Some(to)) = (path.find('{'), path.find('}')) {
        let (id, rest) = body.split_once(' ').unwrap_or((&body, ""));
        path.replace_range(from..=to, id);
        body = rest.to_owned();
    }
    if !wall.query.is_empty() {
        path = format!("{path}?{}", filled(wall.query));
    }

    let mut request = app.request(Method::from_bytes(method.as_bytes()).unwrap(), &path);
    if !body.is_empty() {
        let body: Value =
            serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        request = request.json(&body);
    }
    send(request).await
}

/// Two users with sources of the same path, threads and memories; `b` also with a query.
async fn prepare(bench: &Bench) -> Ids {
    let app = &bench.test.app;
    let mut ids = Ids::new();
    // `b` first: a lookup that forgets the user finds the older source.
    for (name, path, text) in [
        (
            "b.notes",
            "/notes.md",
            "The quokka has a burrow by the hut. The quokka code is 7781.",
        ),
        (
            "b.source",
            "/secret.md",
            "The burrow of the quokka is under the old quokka tree.",
        ),
        (
            "b.hidden",
            "/hidden.md",
            "A quokka sleeps in its burrow in the afternoon.",
        ),
        (
            "a.source",
            "/notes.md",
            "The hut of the ranger is by the lake. It has a green door.",
        ),
        (
            "a.mill",
            "/mill.md",
            "The mill grinds barley on Mondays. The miller rests on Sundays.",
        ),
    ] {
        let body = json!({"text": text, "path": path, "user_id": &name[..1]});
        let job = bench.test.succeed(&body).await;
        ids.insert(
            name.to_owned(),
            job["source_id"].as_str().unwrap().to_owned(),
        );
    }

    for user in ["a", "b"] {
        let said = if user == "a" {
            "The hut has a stove."
        } else {
            "My quokka lives in the burrow."
        };
        let thread = created(
            app,
            "/v1/threads",
            &json!({"user_id": user, "title": format!("{said} Title")}),
        )
        .await;
        for turn in 1..=3 {
            let message = json!({"content": format!("{said} Turn {turn}."), "enrich": false});
            let reply = app
                .post(&format!("/v1/threads/{thread}/messages"), &message)
                .await
                .json();
            ids.insert(
                format!("{user}.message"),
                reply["items"][0]["id"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            );
        }
        for number in 1..=2 {
            let memory = json!({"user_id": user, "content": format!("{said} Fact {number}.")});
            let id = created(app, "/v1/memories", &memory).await;
            ids.insert(format!("{user}.memory"), id);
        }
        created(app, "/v1/threads", &json!({"user_id": user, "title": said})).await;
        ids.insert(format!("{user}.thread"), thread);
    }

    for question in ["Where is the burrow?", "Who sleeps?"] {
        let asked = json!({"query": question, "user_id": "b", "mode": "retrieve", "limit": 1});
        let reply = app.post("/v1/queries", &asked).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        if let Some(cursor) = reply.json()["next_cursor"].as_str() {
            ids.entry("b.cursor".to_owned())
                .or_insert_with(|| cursor.to_owned());
        }
    }
    add_cursors(app, &mut ids).await;
    ids.insert(
        "b.run".to_owned(),
        "0199a7e0-0000-7000-8000-0000000000b1".to_owned(),
    );
    let chunks = app
        .get(&format!("/v1/sources/{}/chunks", ids["b.source"]))
        .await
        .json();
    ids.insert(
        "b.category".to_owned(),
        chunks["items"][0]["category_id"].to_string(),
    );
    ids
}

async fn add_cursors(app: &TestApp, ids: &mut Ids) {
    let thread = ids["b.thread"].clone();
    for (name, path) in [
        ("manifest", "/v1/manifest".to_owned()),
        ("memories", "/v1/memories".to_owned()),
        ("queries", "/v1/queries".to_owned()),
        ("sources", "/v1/sources".to_owned()),
        ("threads", "/v1/threads".to_owned()),
        ("messages", format!("/v1/threads/{thread}/messages")),
    ] {
        let page = app.get(&format!("{path}?user_id=b&limit=1")).await.json();
        let cursor = page["next_cursor"]
            .as_str()
            .unwrap_or_else(|| panic!("{path}: {page}"));
        ids.insert(format!("b.{name}_cursor"), cursor.to_owned());
    }
}

async fn created(app: &TestApp, path: &str, body: &Value) -> String {
    let reply = app.post(path, body).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    reply.json()["id"].as_str().unwrap().to_owned()
}

/// What `b` owns, as it is stored.
async fn everything_of_b(app: &TestApp, ids: &Ids) -> Vec<Value> {
    let mut all = Vec::new();
    for path in ["/v1/sources", "/v1/threads", "/v1/memories", "/v1/queries"] {
        all.push(app.get(&format!("{path}?user_id=b&limit=100")).await.json()["items"].clone());
    }
    for name in ["b.source", "b.notes", "b.hidden"] {
        all.push(
            app.get(&format!("/v1/sources/{}/versions", ids[name]))
                .await
                .json()["items"]
                .clone(),
        );
    }
    all
}
