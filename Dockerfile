# The gateway with its web view and its documentation, on an image without a shell: about as much as the binary itself.
#
#   docker build --tag turnwire .
#   docker run --read-only --env TURNWIRE_API_KEYS=change-me --publish 127.0.0.1:7878:7878 \
#     --volume turnwire:/var/lib/turnwire turnwire serve --demo
#
# It runs as nobody in particular (65532) and writes to /var/lib/turnwire only. Probes ask /healthz and
# /readyz over HTTP: there is nothing in the image that a HEALTHCHECK could start.

FROM node:22-bookworm-slim AS page
WORKDIR /source
COPY clients/typescript clients/typescript
COPY web web
RUN npm ci --prefix web --no-audit --no-fund && npm run build --prefix web

FROM rust:1.95-bookworm AS build
WORKDIR /source
COPY . .
RUN cargo install --locked --version 0.5.4 --no-default-features --features search mdbook \
    && scripts/book embed
COPY --from=page /source/web/dist web/dist
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target \
    cargo build --locked --release --package turnwire-cli \
    && strip -o /turnwire target/release/turnwire \
    && mkdir /state

FROM gcr.io/distroless/cc-debian12:nonroot
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="Turnwire" \
      org.opencontainers.image.description="Runs agent turns and puts every step on the wire" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /turnwire /usr/bin/turnwire
COPY --from=build --chown=65532:65532 /state /var/lib/turnwire
WORKDIR /var/lib/turnwire
VOLUME /var/lib/turnwire
# Whoever listens beyond loopback needs keys: TURNWIRE_API_KEYS.
ENV TURNWIRE_LISTEN=0.0.0.0:7878
EXPOSE 7878
STOPSIGNAL SIGTERM
USER 65532:65532
ENTRYPOINT ["/usr/bin/turnwire"]
CMD ["serve"]
