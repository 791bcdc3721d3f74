import { OutboundError } from './outbound-error.ts';

const LONGEST_URL = 2048;

/** Ports above 1023 that browsers refuse as well (the Fetch standard's "bad ports"): other protocols live there. */
const BAD_PORTS = new Set([
  1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697,
  10080,
]);

/**
 * Checks what the text of a URL alone can show: scheme, port, credentials. Numbers that stand for an IPv4 address in
 * decimal, octal or hexadecimal form come out as its usual form, because the WHATWG parser writes them so.
 */
export function targetUrl(
  text: string,
  base?: URL,
  { allowHttp = false, longest = LONGEST_URL }: { allowHttp?: boolean; longest?: number } = {},
): URL {
  const url = URL.canParse(text, base?.href) ? new URL(text, base?.href) : undefined;
  if (url === undefined || url.href.length > longest) throw new OutboundError('url_refused');
  const isScheme = url.protocol === 'https:' || (allowHttp && url.protocol === 'http:');
  const hasCredentials = url.username !== '' || url.password !== '';
  if (!isScheme || hasCredentials || url.hostname === '' || !isPort(url.port)) {
    throw new OutboundError('url_refused');
  }
  url.hash = '';
  return url;
}

/** The port as `URL` has it: empty where it is the scheme's own. */
function isPort(text: string): boolean {
  const port = Number(text);
  return text === '' || port === 443 || (port >= 1024 && !BAD_PORTS.has(port));
}

/** The host without the brackets of an IPv6 address. */
export const hostOf = (url: URL): string => url.hostname.replace(/^\[(.*)\]$/, '$1');
