import { isIP } from 'node:net';
import type { Config } from '../../config.ts';
import { type Check, ok, warning, failed, messageOf, skipped } from './check.ts';
import { access, constants, statfs } from 'node:fs/promises';
import path from 'node:path';
import { EngineError, probeEngine } from '../../engine/index.ts';
import type { Logger } from '../../platform/logger.ts';
import { createDelivery, greetMailServer } from '../../platform/mail.ts';
import { redisStates } from '../../platform/cluster/redis-state.ts';
import { parseRedisUrl } from '../../redis-url.ts';

const OLDEST = [6, 2] as const;
/** Sharded channels came with Redis 7.0. */
const OLDEST_CLUSTER = [7, 0] as const;
const FULL = 0.9;
const MIB = 2 ** 20;

export const redisCheck = ({ redisUrl }: Pick<Config, 'redisUrl'>): Check => ({
  name: 'redis',
  async run() {
    if (redisUrl === undefined) return skipped('It is not configured: this server runs alone.');
    let states;
    try {
      states = await redisStates(redisUrl);
    } catch (error) {
      return failed(`Redis does not answer: ${messageOf(error)}.`, 'Start Redis, or correct REDIS_URL.');
    }
    const oldest = parseRedisUrl(redisUrl).kind === 'cluster' ? OLDEST_CLUSTER : OLDEST;
    const results = states.map((state) => judgeRedis(state, oldest));
    const worst = (['failed', 'warning'] as const).map((state) => results.find((one) => one.state === state));
    const [first = failed('The cluster has no master.', 'Give its slots to servers.')] = results;
    const found = worst[0] ?? worst[1] ?? first;
    return states.length > 1 && found.state === 'ok'
      ? ok(`${states.length} masters. ${found.message}`)
      : found;
  },
});

function judgeRedis(
  { version, usedBytes, maxBytes, evictionPolicy }: Awaited<ReturnType<typeof redisStates>>[number],
  oldest: readonly [number, number],
) {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major < oldest[0] || (major === oldest[0] && minor < oldest[1])) {
    return failed(`It is Redis ${version}.`, `Upgrade it to Redis ${oldest.join('.')} or newer.`);
  }
  const used = `${Math.round(usedBytes / MIB)} MiB`;
  if (maxBytes > 0 && usedBytes > FULL * maxBytes) {
    return failed(
      `Redis ${version} uses ${used} of ${Math.round(maxBytes / MIB)} MiB.`,
      'Raise its maxmemory, or give Muster a Redis of its own.',
    );
  }
  if (maxBytes > 0 && evictionPolicy !== 'noeviction') {
    return warning(
      `Redis ${version} may remove keys at any time (maxmemory-policy ${evictionPolicy}), and with them which server holds a device.`,
      'Set maxmemory-policy to noeviction.',
    );
  }
  return ok(`Redis ${version} answers and uses ${used}.`);
}

export const mailCheck = (
  { mail, dataDir }: Pick<Config, 'mail' | 'dataDir'>,
  log: Logger,
  sendTo: string | undefined,
): Check => ({
  name: 'mail',
  async run() {
    const { smtpUrl, from } = mail;
    if (smtpUrl === undefined) {
      return warning(
        'SMTP_URL is not set: mails are written to the folder mail of DATA_DIR, and are not sent.',
        'Set SMTP_URL to your mail server.',
      );
    }
    const { host } = new URL(smtpUrl);
    try {
      if (sendTo === undefined) {
        await greetMailServer(smtpUrl);
        return ok(`${host} greets and accepts the sign-in. --send-mail-to sends a test mail.`);
      }
      const text = 'This mail was sent by `muster doctor`, to show that the mails of this server arrive.';
      await createDelivery({ smtpUrl, from, dataDir, log })({ to: sendTo, subject: 'Test of Muster', text });
      return ok(`${host} has taken a mail to ${sendTo}.`);
    } catch (error) {
      return failed(
        `${host} refuses: ${messageOf(error)}.`,
        'Correct SMTP_URL, or ask who runs the mail server.',
      );
    }
  },
});

/** restic on this machine, which verifies, prunes and restores; devices have their own. */
export const engineCheck = ({ backupStore: { enginePath } }: Pick<Config, 'backupStore'>): Check => ({
  name: 'engine',
  async run() {
    try {
      const { path, version } = await probeEngine({ searchPath: enginePath });
      return ok(`restic ${Object.values(version).join('.')} is at ${path}.`);
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      return warning(
        error.message,
        'Install restic on this machine, or name its folder in BACKUP_ENGINE_PATH: without it, backups are not pruned and not verified.',
      );
    }
  },
});

const GIB = 2 ** 30;
/** Below this, the server refuses uploads. */
const FAILS_BELOW = GIB;
const WARNS_BELOW_PART = 0.1;

export const diskChecks = ({ dataDir, backupStore }: Pick<Config, 'dataDir' | 'backupStore'>): Check[] => [
  { name: 'disk', run: () => room('The data folder', dataDir) },
  {
    name: 'backup store',
    async run() {
      if (backupStore.s3 !== undefined) return skipped(`It is in the bucket ${backupStore.s3.bucket}.`);
      const folder = path.join(dataDir, 'backups');
      const exists = await access(folder).then(
        () => true,
        () => false,
      );
      return exists ? room('The backup store', folder) : skipped('Nothing is stored yet.');
    },
  },
];

async function room(what: string, folder: string) {
  let free: number;
  let size: number;
  try {
    await access(folder, constants.W_OK);
    const { bavail, blocks, bsize } = await statfs(folder);
    [free, size] = [bavail * bsize, blocks * bsize];
  } catch (error) {
    return failed(
      `${what} ${folder} cannot be used: ${messageOf(error)}.`,
      'Create it, give it to the user of the server, or set DATA_DIR.',
    );
  }
  const message = `${what} ${folder} has ${(free / GIB).toFixed(1)} GiB of ${(size / GIB).toFixed(1)} GiB free.`;
  if (free < FAILS_BELOW) return failed(message, 'Free space or enlarge the disk: uploads are refused soon.');
  if (free < WARNS_BELOW_PART * size) return warning(message, 'Enlarge the disk before it is full.');
  return ok(message);
}

/** Valid settings that are probably incomplete. */
export const configurationFindings = (config: Config): Check => ({
  name: 'configuration',
  async run() {
    const { publicUrl, host } = config;
    if (publicUrl === undefined) {
      return warning(
        'It is valid, but PUBLIC_URL is not set: links in mails and for agents name this machine only.',
        'Set PUBLIC_URL to the address under which people reach the server.',
      );
    }
    const isLocal = /^(localhost|127\.|\[::1\])/.test(new URL(publicUrl).host);
    if (new URL(publicUrl).protocol === 'http:' && !isLocal) {
      return warning(
        'It is valid, but PUBLIC_URL is without TLS: passwords and tokens cross the network in the clear.',
        'Put a proxy with TLS in front, and set PUBLIC_URL to its https address.',
      );
    }
    if (isIP(host) !== 0 && !isLoopback(host) && config.trustedProxies.length === 0) {
      return warning(
        `It is valid, but the server listens on ${host} without TLS.`,
        'Set HOST=127.0.0.1 behind a proxy on this machine, or name the proxies in TRUSTED_PROXY_CIDRS.',
      );
    }
    return ok('All variables are valid.');
  },
});

const isLoopback = (host: string) => host === '::1' || host.startsWith('127.');
