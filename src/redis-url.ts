/** Where Redis is: one server, one that Sentinels know by a name, or the nodes of a Redis Cluster. */
export type RedisPlace = OneRedis | RedisBySentinels | RedisClusterNodes;

interface OneRedis {
  kind: 'single';
  url: string;
  nodes: RedisNode[];
  tls: boolean;
}

interface Named {
  nodes: RedisNode[];
  tls: boolean;
  username?: string;
  password?: string;
}

export interface RedisBySentinels extends Named {
  kind: 'sentinel';
  /** The name of the master, such as `mymaster`. */
  name: string;
  db: number;
  /** Sentinels may have a user and a password of their own. */
  sentinelUsername?: string;
  sentinelPassword?: string;
}

export interface RedisClusterNodes extends Named {
  kind: 'cluster';
}

export interface RedisNode {
  host: string;
  port: number;
}

export const REDIS_URL_FORMS =
  'must be a URL such as redis://127.0.0.1:6379, redis+sentinel://10.0.0.1:26379,10.0.0.2:26379/mymaster or redis+cluster://10.0.0.1:6379,10.0.0.2:6379 (rediss instead of redis: with TLS)';

/** A sentence about the first thing that is wrong with a URL. It repeats nothing of the URL, which has a password. */
export class RedisUrlError extends Error {}

const SENTINEL_PORT = 26_379;
const REDIS_PORT = 6379;
const OWN_PARAMETERS = new Set(['sentinel_username', 'sentinel_password']);

/**
 * Reads `redis://` and `rediss://`, and the two forms with several nodes, which are those of redis-py's Sentinel URLs:
 * `redis+sentinel://user:password@host:port,host:port/name/db` and `redis+cluster://user:password@host:port,host:port`.
 * Throws `RedisUrlError`.
 */
export function parseRedisUrl(text: string): RedisPlace {
  const [, scheme = '', kind, rest = ''] = /^(rediss?)(?:\+(sentinel|cluster))?:\/\/(.*)$/is.exec(text) ?? [];
  if (scheme === '') throw new RedisUrlError(REDIS_URL_FORMS);
  const tls = scheme.toLowerCase() === 'rediss';
  if (kind === undefined) return oneRedis(text, tls);
  // As in any URL, a slash, a question mark or an at sign within a password is percent-encoded.
  const [, authority = '', path = '', query = ''] = /^([^/?#]*)([^?#]*)(?:\?([^#]*))?$/s.exec(rest) ?? [];
  const at = authority.lastIndexOf('@');
  const who = at === -1 ? {} : credentials(authority.slice(0, at));
  const isCluster = kind.toLowerCase() === 'cluster';
  const nodes = authority
    .slice(at + 1)
    .split(',')
    .map((node) => readNode(node, isCluster ? REDIS_PORT : SENTINEL_PORT));
  const segments = path.split('/').filter((segment) => segment !== '');
  if (isCluster) {
    if (segments.length > 0 || query !== '') {
      throw new RedisUrlError(
        'a Redis Cluster has no database and no parameters: end the URL after its nodes',
      );
    }
    return { kind: 'cluster', nodes, tls, ...who };
  }
  const [name, db = '0', ...more] = segments.map(decoded);
  if (name === undefined || more.length > 0) {
    throw new RedisUrlError(
      'name the master after the Sentinels, as in redis+sentinel://10.0.0.1:26379/mymaster',
    );
  }
  const isNumber = /^\d{1,4}$/.test(db);
  if (!isNumber) throw new RedisUrlError('the database after the name of the master must be a number');
  return { kind: 'sentinel', nodes, tls, ...who, name, db: Number(db), ...sentinelCredentials(query) };
}

function oneRedis(url: string, tls: boolean): OneRedis {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined || parsed.hostname === '') throw new RedisUrlError(REDIS_URL_FORMS);
  const port = parsed.port === '' ? REDIS_PORT : Number(parsed.port);
  return { kind: 'single', url, nodes: [{ host: parsed.hostname, port }], tls };
}

function readNode(text: string, defaultPort: number): RedisNode {
  const [, bracketed, plain, port] = /^(?:\[([\da-f:.]+)\]|([\w.-]+))(?::(\d{1,5}))?$/i.exec(text) ?? [];
  const host = bracketed ?? plain;
  const number = port === undefined ? defaultPort : Number(port);
  if (host === undefined || number < 1 || number > 65_535) {
    throw new RedisUrlError('each node must be host:port, with commas between the nodes');
  }
  return { host, port: number };
}

function credentials(text: string): Pick<Named, 'username' | 'password'> {
  const [username = '', ...rest] = text.split(':');
  const password = rest.join(':');
  return {
    ...(username === '' ? {} : { username: decoded(username) }),
    ...(password === '' ? {} : { password: decoded(password) }),
  };
}

function sentinelCredentials(query: string): Pick<RedisBySentinels, 'sentinelUsername' | 'sentinelPassword'> {
  const given = new URLSearchParams(query);
  for (const name of given.keys()) {
    if (!OWN_PARAMETERS.has(name)) {
      throw new RedisUrlError(`the parameters are ${[...OWN_PARAMETERS].join(' and ')}`);
    }
  }
  const sentinelUsername = given.get('sentinel_username');
  const sentinelPassword = given.get('sentinel_password');
  return {
    ...(sentinelUsername === null ? {} : { sentinelUsername }),
    ...(sentinelPassword === null ? {} : { sentinelPassword }),
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new RedisUrlError('write a percent sign as %25');
  }
}

/** The URL with this password, which it must not have yet. Throws `RedisUrlError`. */
export function withRedisPassword(url: string, password: string): string {
  const [, start = '', authority = '', rest = ''] = /^([^/]*:\/\/)([^/?#]*)(.*)$/s.exec(url) ?? [];
  const at = authority.lastIndexOf('@');
  const [username = ''] = authority.slice(0, Math.max(at, 0)).split(':');
  return `${start}${username}:${encodeURIComponent(password)}@${authority.slice(at + 1)}${rest}`;
}

/** Whether the URL has a password in it. */
export function hasRedisPassword(url: string): boolean {
  const place = parseRedisUrl(url);
  if (place.kind === 'single') return new URL(place.url).password !== '';
  return place.password !== undefined || (place.kind === 'sentinel' && place.sentinelPassword !== undefined);
}

/** For logs and messages: the nodes, without user and password. */
export function describeRedis({ kind, nodes, tls }: RedisPlace): string {
  const list = nodes.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`).join(',');
  return `redis${tls ? 's' : ''}${kind === 'single' ? '' : `+${kind}`}://${list}`;
}
