import { isIP } from 'node:net';
import type { Config } from '../../../config.ts';
import type { Check } from '../check.ts';
import { ok, warning } from '../check.ts';

/** What a configuration without faults may still have forgotten. */
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
