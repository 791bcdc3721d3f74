import { randomBytes } from 'node:crypto';
import http from 'node:http';
import https from 'node:https';
import { isIP } from 'node:net';
import tls from 'node:tls';
import { VERSION } from '../../api-info.ts';
import { clock, DAY_MS } from '../../clock.ts';
import { Health } from '../../features/service.ts';
import { addressList, contains, listedHops } from '../../platform/http/client-address.ts';
import { SELF_CHECK_PURPOSE, SelfCheck, selfCheckToken } from '../../platform/http/operations.ts';
import { createMac } from '../../platform/secrets/tokens.ts';
import { HUB_PATH } from '../../protocol/index.ts';
import type { InstallationAccess } from '../with-installation.ts';
import { type Check, failed, type Finding, messageOf, ok, skipped, warning } from './check.ts';

/** Checks the route of browsers and agents: through the proxy, to the public address. */

const REQUEST_MS = 10_000;
const CERTIFICATE_WARNS_DAYS = 21;

interface OutsideParts {
  url: string | undefined;
  access: InstallationAccess;
}

export function outsideChecks({ url, access }: OutsideParts): Check[] {
  const all = {
    'public address': reach,
    certificate,
    websocket,
    'client addresses': (base: URL) => clientAddresses(base, access),
  };
  return Object.entries(all).map(([name, check]) => ({
    name,
    run: async () =>
      url === undefined
        ? skipped('There is no public address: set PUBLIC_URL, or pass --public-url.')
        : check(new URL(`${url.replace(/\/+$/, '')}/`)),
  }));
}

async function reach(base: URL): Promise<Finding> {
  const health = new URL('health', base);
  let answer: Response;
  let text: string;
  try {
    answer = await fetch(health, { signal: clock.timeoutSignal(REQUEST_MS), redirect: 'manual' });
    text = await answer.text();
  } catch (error) {
    const { cause } = error as { cause?: unknown };
    return failed(
      `${health.href} does not answer: ${messageOf(cause ?? error)}.`,
      'Start the server and its proxy, and check the name and the port.',
    );
  }
  const found = Health.safeParse(jsonOf(text));
  if (!found.success) {
    return failed(
      `${health.href} answers ${answer.status}, but not as Muster does.`,
      'Let the proxy pass every path on to the server.',
    );
  }
  if (found.data.version !== VERSION) {
    return warning(
      `The server at ${base.origin} is release ${found.data.version}, and this command ${VERSION}.`,
      'Restart the server, or run the command of its release.',
    );
  }
  return ok(`${base.origin} is this release, up for ${found.data.uptime} s.`);
}

async function certificate(base: URL): Promise<Finding> {
  if (base.protocol === 'http:') return skipped('The public address is without TLS.');
  const { expiresAt, fault } = await readCertificate(base);
  if (fault !== undefined) {
    return failed(
      `Clients refuse the certificate of ${base.host}: ${fault}.`,
      'Install a certificate for this name together with its intermediate certificates.',
    );
  }
  const days = Math.floor((expiresAt.getTime() - clock.now()) / DAY_MS);
  const message = `The certificate of ${base.host} is valid for ${days} more days.`;
  return days < CERTIFICATE_WARNS_DAYS
    ? warning(message, 'Renew it, and check why it was not renewed by itself.')
    : ok(message);
}

/** The certificate is read even if it is not accepted, so that the reason can be named. */
function readCertificate({ hostname, port }: URL): Promise<{ expiresAt: Date; fault: string | undefined }> {
  const host = hostname.replace(/^\[|\]$/g, '');
  return new Promise((resolve, reject) => {
    const socket = tls.connect({
      host,
      port: port === '' ? 443 : Number(port),
      ...(isIP(host) === 0 ? { servername: host } : {}),
      rejectUnauthorized: false,
      timeout: REQUEST_MS,
    });
    socket.once('secureConnect', () => {
      const { valid_to: until } = socket.getPeerCertificate();
      const refusal = socket.authorized ? undefined : String(socket.authorizationError);
      socket.destroy();
      resolve({ expiresAt: new Date(until), fault: refusal });
    });
    socket.once('timeout', () => socket.destroy(new Error('it does not answer')));
    socket.once('error', reject);
  });
}

async function websocket(base: URL): Promise<Finding> {
  const status = await upgradeStatus(base);
  return status === 101
    ? ok('Websockets are accepted.')
    : failed(
        `A websocket at ${base.origin}${HUB_PATH} is answered with status ${status}, so agents fall back to slower HTTP and dashboards stay still.`,
        'Let the proxy pass on the headers Upgrade and Connection, by HTTP/1.1.',
      );
}

function upgradeStatus(base: URL): Promise<number> {
  const url = new URL(`${HUB_PATH.replace(/^\//, '')}/?EIO=4&transport=websocket`, base);
  return new Promise((resolve, reject) => {
    const request = (url.protocol === 'https:' ? https : http).request(url, {
      headers: {
        Connection: 'Upgrade',
        Upgrade: 'websocket',
        'Sec-WebSocket-Version': '13',
        'Sec-WebSocket-Key': randomBytes(16).toString('base64'),
      },
      // A separate check covers the certificate.
      rejectUnauthorized: false,
      timeout: REQUEST_MS,
    });
    request.once('upgrade', (_response, socket) => {
      socket.destroy();
      resolve(101);
    });
    request.once('response', (response) => {
      response.destroy();
      resolve(response.statusCode ?? 0);
    });
    request.once('timeout', () => request.destroy(new Error('it does not answer')));
    request.once('error', reject);
    request.end();
  });
}

/** A reserved address (RFC 5737): a server that believes it would believe any address. */
const FORGED = '203.0.113.77';

async function clientAddresses(base: URL, { config, secretKeys }: InstallationAccess): Promise<Finding> {
  const token = selfCheckToken(createMac(secretKeys, SELF_CHECK_PURPOSE));
  const answer = await fetch(new URL('health/self-check', base), {
    headers: { Authorization: `Bearer ${token}`, 'X-Forwarded-For': FORGED },
    signal: clock.timeoutSignal(REQUEST_MS),
  });
  const seen = SelfCheck.safeParse(jsonOf(await answer.text()));
  if (!seen.success) {
    return warning(
      'The server does not say how it sees this request.',
      'Run the command with the keys and on the release of the server, and let the proxy pass on the header Authorization.',
    );
  }
  return judgeAddresses(seen.data, { host: base.host, trustedProxies: config.trustedProxies });
}

/** How the server has seen a request that claims to come from `FORGED`. */
export function judgeAddresses(
  seen: SelfCheck,
  { host, trustedProxies }: { host: string; trustedProxies: readonly string[] },
): Finding {
  const { peer, peerIsProxy, client, unreadable, forwardedFor, forwardedProto, via } = seen;
  const hops = listedHops(forwardedFor ?? '');
  const isProxied = forwardedFor !== FORGED || forwardedProto !== null || via !== null || seen.host !== host;
  if (!isProxied) {
    return trustedProxies.length === 0
      ? ok(`There is no proxy, and the server sees this machine as ${client}.`)
      : warning(
          'TRUST_PROXY_HEADERS is on, but this request did not pass a proxy.',
          'Check the public address; if there is no proxy, switch TRUST_PROXY_HEADERS off.',
        );
  }
  if (!peerIsProxy) {
    return failed(
      `The server does not trust the proxy at ${peer}, so all clients seem to have that address: limits and allowlists count them as one.`,
      `Set TRUST_PROXY_HEADERS=true, and add ${peer} to TRUSTED_PROXY_CIDRS.`,
    );
  }
  if (unreadable !== null) {
    return failed(
      `The proxy at ${peer} names its clients in ${unreadable.header} in a form that is no address (${unreadable.value}), so IP allowlists refuse all of them.`,
      'Let the proxy write the address of the client, with or without a port.',
    );
  }
  if (client !== FORGED) {
    return ok(`The server trusts the proxy at ${peer}, and sees this machine as ${client}.`);
  }
  const last = hops.at(-1) ?? '';
  if (last !== FORGED && contains(addressList(trustedProxies), last)) {
    return warning(
      `This machine (${last}) counts as a proxy itself, so it cannot be seen here if others could forge their address.`,
      'Run the command on a machine outside of TRUSTED_PROXY_CIDRS, with the keys of the server.',
    );
  }
  return failed(
    'The proxy passes X-Forwarded-For on as the client sent it, so anyone can pretend to have any address.',
    'Let the proxy append the address of the client, as nginx does with: proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for',
  );
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
