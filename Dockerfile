# memoir as an image: compiled on Debian 12, run on distroless Debian 12 (the same glibc) without shell or root.
#
#   docker build -t memoir .
#   docker run --read-only -p 127.0.0.1:8080:8080 -v memoir-data:/data \
#     -e MEMOIR__AUTH__KEYS='[{"name":"app","key":"SECRET","role":"admin"}]' memoir
#
# Without auth.keys it ends at once with exit code 2: it listens beyond loopback, where an open service is refused.

# The version of rust-toolchain.toml; scripts/lib/check-ship compares them. That file itself stays outside, as
# rustup would answer it by downloading clippy and rustfmt, which no build needs.
# SQLite and ring are compiled from C: slim brings gcc and libc6-dev, and they need nothing more.
FROM rust:1.95.0-slim-bookworm AS build
WORKDIR /build

# The dependencies alone, in a layer that only Cargo.toml and Cargo.lock can make stale. Placeholder sources do
# that without a tool; cargo-chef would have to be downloaded and compiled first. cargo wants a file for every
# test or benchmark that Cargo.toml names, so those get a placeholder too, and are not built.
COPY Cargo.toml Cargo.lock ./
RUN mkdir src benches tests \
    && awk -F'"' '/^\[/ { folder = /^\[\[bench]]/ ? "benches" : /^\[\[test]]/ ? "tests" : "" } \
                  folder && /^name/ { print "fn main() {}" > (folder "/" $2 ".rs") }' Cargo.toml \
    && echo 'fn main() {}' > src/main.rs && touch src/lib.rs \
    && cargo build --release --locked --bin memoir

# assets, config and migrations are compiled in.
COPY assets assets
COPY config config
COPY migrations migrations
COPY src src
# cargo goes by the time of files, and a checkout may be older than the placeholders; hence touch. A placeholder
# that was built all the same would not know its version, and fails the build.
RUN touch src/main.rs src/lib.rs \
    && cargo build --release --locked --bin memoir \
    && [ -n "$(target/release/memoir --version)" ] \
    && mkdir /data

# cc has what the binary links: glibc, libm and libgcc_s.
FROM gcr.io/distroless/cc-debian12:nonroot
ARG REVISION=unknown
LABEL org.opencontainers.image.title="memoir" \
      org.opencontainers.image.description="A memory service for LLM applications: text filed verbatim under a category hierarchy, found by walking it, with a receipt." \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0" \
      org.opencontainers.image.base.name="gcr.io/distroless/cc-debian12:nonroot"

COPY LICENSE-APACHE LICENSE-MIT /usr/share/doc/memoir/
COPY --from=build /build/target/release/memoir /usr/local/bin/memoir
# Copied, as there is no shell to make it with. A new volume takes over this owner.
COPY --from=build --chown=65532:65532 /data /data

# The only place that is written. The default database, sqlite://memoir.db, is relative and thereby /data/memoir.db.
# It is not set with ENV MEMOIR__DATABASE__URL: that would win over DATABASE_URL and over a file with settings, and
# whoever names PostgreSQL there would silently get SQLite.
WORKDIR /data
VOLUME /data

ENV MEMOIR__SERVER__LISTEN=0.0.0.0:8080
EXPOSE 8080

# By number, so that Kubernetes can tell that it is not root (runAsNonRoot).
USER 65532:65532
STOPSIGNAL SIGTERM

# Reads the same environment as the service; give a file with settings as MEMOIR_CONFIG, not as --config, and this
# finds it as well. One check may wait 5 s each for the connection and for the answer.
HEALTHCHECK --interval=15s --timeout=12s --start-period=30s --retries=3 \
    CMD ["/usr/local/bin/memoir", "healthcheck"]

ENTRYPOINT ["/usr/local/bin/memoir"]
CMD ["serve"]
