# The memoir image: built on Debian 12, run on distroless Debian 12 (the same glibc) without a shell or root.
#
#   docker build -t memoir .
#   docker run --read-only -p 127.0.0.1:8080:8080 -v memoir-data:/data \
#     -e MEMOIR__AUTH__KEYS='[{"name":"app","key":"SECRET","role":"admin"}]' memoir
#
# Without auth.keys it exits immediately with code 2: it listens on all addresses, which requires a key.

# The same version as in rust-toolchain.toml; scripts/lib/check-ship compares them. That file is not copied,
# because rustup would then download clippy and rustfmt, which the build does not need.
# SQLite and ring are compiled from C and need only gcc and libc6-dev, which the slim image contains.
FROM rust:1.95.0-slim-bookworm AS build
WORKDIR /build

# Build the dependencies in a layer of their own, which only Cargo.toml files, Cargo.lock and .cargo invalidate. Placeholder
# sources need no extra tool; cargo-chef would have to be downloaded and compiled first. cargo requires a file for
# every test and benchmark named in Cargo.toml, so those get a placeholder too; they are not built.
COPY Cargo.toml Cargo.lock ./
COPY crates/embedded-model/Cargo.toml crates/embedded-model/
COPY crates/index/Cargo.toml crates/index/
COPY crates/policy/Cargo.toml crates/policy/
COPY crates/scripted-model/Cargo.toml crates/scripted-model/
COPY crates/text/Cargo.toml crates/text/
COPY .cargo .cargo
RUN mkdir src benches tests \
    && for crate in crates/*; do mkdir $crate/src && touch $crate/src/lib.rs; done \
    && awk -F'"' '/^\[/ { folder = /^\[\[bench]]/ ? "benches" : /^\[\[test]]/ ? "tests" : "" } \
                  folder && /^name/ { print "fn main() {}" > (folder "/" $2 ".rs") }' Cargo.toml \
    && echo 'fn main() {}' > src/main.rs && touch src/lib.rs \
    && cargo build --profile dist --locked --bin memoir

# config and migrations are compiled into the binary.
COPY config config
COPY migrations migrations
COPY crates crates
COPY src src
# cargo compares modification times, and a checkout may be older than the placeholders; hence touch. If a
# placeholder were built all the same, it would print no version, and the check below would fail the build.
RUN touch src/main.rs src/lib.rs crates/*/src/lib.rs \
    && cargo build --profile dist --locked --bin memoir \
    && [ -n "$(target/dist/memoir --version)" ] \
    && mkdir /data

# The cc image contains the libraries the binary links to: glibc, libm and libgcc_s.
FROM gcr.io/distroless/cc-debian12:nonroot
ARG REVISION=unknown
LABEL org.opencontainers.image.title="memoir" \
      org.opencontainers.image.description="A memory service for LLM applications: text filed verbatim under a category hierarchy, found by walking it, with a receipt." \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0" \
      org.opencontainers.image.base.name="gcr.io/distroless/cc-debian12:nonroot"

COPY LICENSE-APACHE LICENSE-MIT /usr/share/doc/memoir/
COPY --from=build /build/target/dist/memoir /usr/local/bin/memoir
# Copied, because there is no shell to create it with. A new volume inherits this owner.
COPY --from=build --chown=65532:65532 /data /data

# The only writable directory. The default database, sqlite://memoir.db, is a relative path and so /data/memoir.db.
# MEMOIR__DATABASE__URL is not set here: it would override DATABASE_URL and the settings file, so that a user who
# configures PostgreSQL there would silently get SQLite.
WORKDIR /data
VOLUME /data

ENV MEMOIR__SERVER__LISTEN=0.0.0.0:8080
EXPOSE 8080

# A numeric id lets Kubernetes verify that it is not root (runAsNonRoot).
USER 65532:65532
STOPSIGNAL SIGTERM

# The check reads the same environment as the service, so name a settings file with MEMOIR_CONFIG, not --config.
# It waits up to 5 s for the connection and 5 s for the response.
HEALTHCHECK --interval=15s --timeout=12s --start-period=30s --retries=3 \
    CMD ["/usr/local/bin/memoir", "healthcheck"]

ENTRYPOINT ["/usr/local/bin/memoir"]
CMD ["serve"]
