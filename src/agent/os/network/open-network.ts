import path from 'node:path';
import { z } from 'zod';
import { readPrivateJson, replaceFile, writePrivateJson } from '../files/private-file.ts';
import { authoritiesWith, readCertificates, systemAuthorities } from './authorities.ts';
import { Network } from './network.ts';
import { ProxyRules } from './proxy-rules.ts';

/** How this machine reaches its server, where its administrator has decided that. The file may hold a proxy's password. */
const NetworkSettings = z.object({
  /** The address of a proxy, or `none`. It takes precedence over `HTTPS_PROXY` and `HTTP_PROXY`. */
  proxy: z.string().optional(),
  /** As `NO_PROXY`, for `proxy`. */
  noProxy: z.string().optional(),
  /** A PEM file of authorities that count beside those of the system. */
  caFile: z.string().optional(),
});
type NetworkSettings = z.infer<typeof NetworkSettings>;

/** What a command line has given: it takes precedence, and `keepNetwork` stores it. */
export interface NetworkChoice {
  proxy?: string | undefined;
  caFile?: string | undefined;
}

const settingsFile = (dataDir: string) => path.join(dataDir, 'network.json');

/**
 * Opens the network as it is configured: by `given`, else by `MUSTER_PROXY` and `MUSTER_CA_FILE`, else by the settings
 * of the agent, else by the environment of all programs. Throws with the reason where a part of that cannot be used.
 */
export async function openNetwork(
  dataDir: string,
  given: NetworkChoice = {},
  environment: NodeJS.ProcessEnv = process.env,
): Promise<Network> {
  const settings = await loadSettings(dataDir);
  const file = settingsFile(dataDir);
  const proxy = first(
    ['--proxy', given.proxy],
    ['MUSTER_PROXY', environment['MUSTER_PROXY']],
    [file, settings.proxy],
  );
  const ca = first(
    ['--ca', given.caFile],
    ['MUSTER_CA_FILE', environment['MUSTER_CA_FILE']],
    [file, settings.caFile],
  );
  const rules = new ProxyRules(
    { proxy: proxy?.value, noProxy: settings.noProxy },
    environment,
    proxy?.source,
  );
  const authorities = ca === undefined ? systemAuthorities() : await authoritiesWith(ca.value, ca.source);
  return new Network({ rules, authorities });
}

/** Without settings of an agent: for programs that simulate machines. */
export function environmentNetwork(environment: NodeJS.ProcessEnv = process.env): Network {
  return new Network({ rules: new ProxyRules({}, environment), authorities: systemAuthorities() });
}

/** Stores what a command line has given, for all later runs. The certificates are copied, so their file may be deleted. */
export async function keepNetwork(dataDir: string, { proxy, caFile }: NetworkChoice): Promise<void> {
  if (proxy === undefined && caFile === undefined) return;
  const settings = await loadSettings(dataDir);
  if (proxy !== undefined) settings.proxy = proxy;
  if (caFile !== undefined) {
    const certificates = await readCertificates(caFile, '--ca');
    settings.caFile = path.join(dataDir, 'ca.pem');
    await (await replaceFile(settings.caFile, Buffer.from(`${certificates.join('\n')}\n`))).close();
  }
  await writePrivateJson(settingsFile(dataDir), settings);
}

async function loadSettings(dataDir: string): Promise<NetworkSettings> {
  const file = settingsFile(dataDir);
  const kept = await readPrivateJson(file).catch((error: unknown) => {
    // The message of a JSON error may quote the file, which may hold a password.
    throw new Error(`The network settings in ${file} cannot be read.`, {
      cause: error instanceof SyntaxError ? undefined : error,
    });
  });
  const settings = NetworkSettings.safeParse(kept ?? {});
  if (settings.success) return settings.data;
  const [issue] = settings.error.issues;
  throw new Error(`${file} cannot be used: ${issue?.path.join('.')}: ${issue?.message}.`);
}

type Candidate = [source: string, value: string | undefined];

/** The first candidate that is set. An empty value counts as not set. */
function first(...candidates: Candidate[]): { source: string; value: string } | undefined {
  for (const [source, value] of candidates) {
    if (value !== undefined && value.trim() !== '') return { source, value: value.trim() };
  }
  return undefined;
}
