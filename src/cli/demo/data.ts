import { randomBytes } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import {
  CUSTOMERS,
  demoState,
  DEMO_PEOPLE,
  seedDemo,
  type DemoEmail,
  DEMO_RELEASES,
  setInMotion,
} from '../../../seeds/demo.ts';
import type { Config } from '../../config.ts';
import { removeCluster } from '../../platform/db/embedded/index.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { createLogger, type Logger } from '../../platform/logger.ts';
import { hashPassword } from '../../platform/secrets/passwords.ts';
import { writePrivate } from '../../platform/secrets/own-files.ts';
import type { Server } from '../../server.ts';
import { StartRefused } from '../../start-failure.ts';
import { createAuditTrail } from '../../features/audit/index.ts';
import { openReleaseFiles, ReleaseKeys } from '../../features/releases/index.ts';
import { addRelease } from '../../features/releases/operator.ts';

/**
 * Releases for simulated machines, published as an operator would, and the rollout of one of them. They are candidates
 * that are not promoted, so neither real machines nor their installer get them.
 */

const PLATFORMS = [
  { os: 'windows', architecture: 'x64' },
  { os: 'linux', architecture: 'x64' },
  { os: 'macos', architecture: 'arm64' },
] as const;
const NOTES = 'A release of the demo: no program, but a text that simulated machines pretend to install.';

export async function publishDemoReleases(
  { database, secrets, chainWriter }: Pick<Server, 'database' | 'secrets' | 'chainWriter'>,
  config: Config,
  log: Logger,
): Promise<void> {
  const parts = {
    db: database.pool,
    log,
    audit: createAuditTrail(chainWriter),
    files: openReleaseFiles(config),
    keys: new ReleaseKeys(secrets),
    promotesItself: false,
  };
  const file = path.join(config.dataDir, 'demo-release.txt');
  for (const component of ['agent', 'watchdog'] as const) {
    const version = DEMO_RELEASES[component];
    await writeFile(file, `${component} ${version}: ${NOTES}\n`);
    for (const platform of PLATFORMS) {
      await addRelease(
        parts,
        { component, version, ...platform },
        { path: file, sha256: undefined, notes: NOTES },
      );
    }
  }
  await withSystem(database.pool, 'set the demo in motion', setInMotion);
}

/** The files of the demo in its data folder. Only its own user can read them. */

export type DemoPeople = Record<DemoEmail, { email: DemoEmail; password: string; is: string }>;

/** An enrollment key for one site, the site's share of the simulated devices, and their naming pattern. */
export type DemoKey = z.infer<typeof Keys>[number];

export async function makeDataFolder(dataDir: string): Promise<void> {
  try {
    await mkdir(dataDir, { recursive: true });
    await writePrivate(path.join(dataDir, '.writable'), '');
    await rm(path.join(dataDir, '.writable'));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new StartRefused(
      `The data folder ${dataDir} cannot be written to (${code}). Give this user write access, or choose another folder with DATA_DIR.`,
    );
  }
}

/** Deletes the data of earlier demos. Throws while a demo is running. */
export async function removeDemo(config: Config): Promise<void> {
  if (config.database.kind === 'external') {
    throw new StartRefused('The demo deletes its own embedded database only, not the one in DATABASE_URL.');
  }
  await removeCluster({ dataDir: config.dataDir, log: createLogger('silent') });
  await rm(config.dataDir, { recursive: true, force: true });
}

/** Seeds an empty database and keeps one that holds the demo. Throws for a database with other data. */
export async function ensureSeed(server: Server, config: Config): Promise<DemoPeople> {
  const file = path.join(config.dataDir, 'demo-passwords.json');
  const { pool } = server.database;
  const state = await withSystem(pool, 'check whether the database holds the demo', demoState);
  if (state === 'other') {
    throw new StartRefused(
      "The database in DATABASE_URL holds data that is not the demo's. Give the demo an empty database.",
    );
  }
  if (state === 'empty') {
    const made = Object.fromEntries(
      DEMO_PEOPLE.map(({ email }) => [email, randomBytes(12).toString('base64url')]),
    );
    await writePrivate(file, `${JSON.stringify(made, null, 2)}\n`);
    const hashed = await Promise.all(
      Object.entries(made).map(async ([email, password]) => [email, await hashPassword(password)]),
    );
    const hashes = Object.fromEntries(hashed) as Record<DemoEmail, string>;
    await withSystem(pool, 'seed the demo', (tx) => seedDemo(tx, hashes));
  }
  const passwords = z.record(z.string(), z.string()).parse(await readJson(file));
  const people = DEMO_PEOPLE.map(({ email, is }) => [email, { email, is, password: passwords[email] ?? '' }]);
  return Object.fromEntries(people) as DemoPeople;
}

const Keys = z.array(
  z.object({
    siteId: z.string(),
    key: z.string(),
    share: z.number(),
    hosts: z.object({ site: z.string(), places: z.array(z.string()) }).optional(),
  }),
);
const SITES = CUSTOMERS.flatMap(({ sites }) => sites.map((site) => site));
const SiteList = z.object({
  data: z.array(z.object({ id: z.string(), orgId: z.string(), name: z.string() })),
});

/** One key for each site, created at the first start and kept for later starts with more devices. */
export async function ensureKeys(
  client: DemoClient,
  config: Config,
): Promise<{ keys: DemoKey[]; file: string }> {
  const file = path.join(config.dataDir, 'demo-enrollment-keys.json');
  const kept = await readJson(file);
  if (kept !== undefined) return { keys: Keys.parse(kept), file };
  const { data: sites } = await client.get('/orgs/sites?limit=100', SiteList);
  const keys: DemoKey[] = [];
  for (const { id: siteId, orgId, name } of sites) {
    const { key } = await client.post(
      '/enrollment-keys',
      { orgId, siteId, name: `Demo: ${name}` },
      z.object({ key: z.string() }),
    );
    const site = SITES.find((one) => one.name === name);
    const hosts = site && { site: site.code, places: [...site.places] };
    keys.push({ siteId, key, share: site?.share ?? 1, ...(hosts === undefined ? {} : { hosts }) });
  }
  await writePrivate(file, `${JSON.stringify(keys, null, 2)}\n`);
  return { keys, file };
}

/** `undefined` if the file does not exist. */
export async function readJson(file: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as unknown;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** A client of the public API. The demo uses it like a new user: it signs in, creates keys and reads devices. */
export interface DemoClient {
  get<S extends z.ZodType>(path: string, schema: S): Promise<z.infer<S>>;
  post<S extends z.ZodType>(path: string, body: unknown, schema: S): Promise<z.infer<S>>;
}

export async function signInTo(
  url: string,
  person: { email: string; password: string },
): Promise<DemoClient> {
  const login = await request(url, 'POST', '/auth/login', person, undefined);
  const { tokens } = z.object({ tokens: z.object({ accessToken: z.string() }) }).parse(login);
  return {
    get: async (path, schema) => schema.parse(await request(url, 'GET', path, undefined, tokens.accessToken)),
    post: async (path, body, schema) =>
      schema.parse(await request(url, 'POST', path, body, tokens.accessToken)),
  };
}

async function request(
  url: string,
  method: string,
  path: string,
  body: unknown,
  token: string | undefined,
): Promise<unknown> {
  const response = await fetch(`${url}/api/v1${path}`, {
    method,
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const answer: unknown = await response.json();
  if (!response.ok) {
    throw new Error(`${method} ${path} failed with ${response.status}: ${JSON.stringify(answer)}`);
  }
  return answer;
}
