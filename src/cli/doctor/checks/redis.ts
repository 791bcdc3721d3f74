import type { Config } from '../../../config.ts';
import { redisState } from '../../../platform/cluster/redis-state.ts';
import { type Check, failed, messageOf, ok, skipped, warning } from '../check.ts';

const OLDEST = [6, 2] as const;
const FULL = 0.9;
const MIB = 2 ** 20;

export const redisCheck = ({ redisUrl }: Pick<Config, 'redisUrl'>): Check => ({
  name: 'redis',
  async run() {
    if (redisUrl === undefined) return skipped('It is not configured: this server runs alone.');
    let state;
    try {
      state = await redisState(redisUrl);
    } catch (error) {
      return failed(`Redis does not answer: ${messageOf(error)}.`, 'Start Redis, or correct REDIS_URL.');
    }
    const { version, usedBytes, maxBytes, evictionPolicy } = state;
    const [major = 0, minor = 0] = version.split('.').map(Number);
    if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
      return failed(`It is Redis ${version}.`, `Upgrade it to Redis ${OLDEST.join('.')} or newer.`);
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
  },
});
