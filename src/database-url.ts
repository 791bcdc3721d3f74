/** The URL of Postgres. It may name several servers, of which one is the primary: postgres://user@one:5432,two/muster. */

const ADDRESS = /^(postgres(?:ql)?:\/\/)([^/?#]*@)?([^/?#]*)(.*)$/is;

/** A URL of its own for each server that the URL names, in its order. */
export function serversOf(url: string): string[] {
  const [, scheme, user = '', hosts = '', rest = ''] = ADDRESS.exec(url) ?? [];
  if (scheme === undefined) return [url];
  return hosts.split(',').map((host) => `${scheme}${user}${host}${rest}`);
}

/** The hosts as the URL has them, each with its port if it has one. */
export const hostsOf = (url: string): string => ADDRESS.exec(url)?.[3] ?? '';

/** The name and the password in a URL, as they are used. */
export function credentialsOf(url: string): { user: string; password: string } {
  const { username, password } = new URL(serversOf(url)[0] ?? url);
  return { user: decodeURIComponent(username), password: decodeURIComponent(password) };
}

/** The same servers and database, for another user. */
export function withCredentials(url: string, user: string, password: string): string {
  return url.replace(
    ADDRESS,
    (_whole, scheme: string, _user: string | undefined, hosts: string, rest: string) =>
      `${scheme}${encodeURIComponent(user)}:${encodeURIComponent(password)}@${hosts}${rest}`,
  );
}

/** More than any installation has, and few enough to be asked at once. */
const SERVERS_MAX = 9;
const EXAMPLE = 'postgres://user:password@127.0.0.1:5432/muster';
/** What libpq calls the only kind of server that Muster uses. */
const PRIMARY_ATTRIBUTES = ['read-write', 'primary'];

/** The rule that a URL breaks; `undefined` if it breaks none. */
export function databaseUrlFault(url: string): string | undefined {
  if (!ADDRESS.test(url)) return `must be a URL such as ${EXAMPLE}`;
  const hosts = hostsOf(url).split(',');
  if (hosts.length > SERVERS_MAX) return `must name at most ${SERVERS_MAX} servers`;
  if (hosts.length > 1 && hosts.some((host) => /^(:|$)/.test(host))) {
    return 'must name a host before and after each comma, such as postgres://user:password@one:5432,two:5432/muster';
  }
  const servers = serversOf(url);
  if (servers.some((server) => !URL.canParse(server))) {
    return `must be a URL such as ${EXAMPLE}, with commas between several servers`;
  }
  const { searchParams } = new URL(servers[0] ?? url);
  if (servers.length > 1 && (searchParams.has('host') || searchParams.has('port'))) {
    return 'must name several servers before the name of the database, and not in the parameters host and port';
  }
  const attributes = searchParams.get('target_session_attrs');
  if (attributes !== null && !PRIMARY_ATTRIBUTES.includes(attributes)) {
    return `must have target_session_attrs=read-write or none: Muster writes, so it uses the primary`;
  }
  return undefined;
}
