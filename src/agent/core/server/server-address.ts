import { isIPv4 } from 'node:net';
import { HUB_PATH } from '../../../protocol/index.ts';

/** Which addresses of a server the agent takes: what it sends and is told must not be readable on the way. */

export const INSECURE_WARNING =
  'The connection to the server is not encrypted (--insecure-http): whoever can change it on the way controls this machine. This is for laboratories only.';

export const INSECURE_REFUSAL =
  'The address of the server must begin with https://. Over http:// anybody on the way could take over this machine. For a laboratory without certificates, enroll with --insecure-http.';

/** Encrypted, or never leaving this machine. */
export function isSecureServer(server: string): boolean {
  const url = URL.parse(server);
  if (url === null) return false;
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname));
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || (isIPv4(host) && host.startsWith('127.'));
}

/**
 * The path of the hub, as the server names it: by a path, or by a whole address. An address on another host, or a less
 * secure one, is not followed: whoever can change the server's settings must not lead its agents elsewhere by them.
 */
export function hubPathOf(server: string, hubUrl: string): { path: string; ignored?: string } {
  const base = URL.parse(server);
  const named = URL.parse(hubUrl, server);
  if (base === null || named === null) return { path: HUB_PATH, ignored: hubUrl };
  const protocol = named.protocol.replace(/^ws/, 'http');
  const isSame = named.host === base.host && protocol === base.protocol && named.username === '';
  return isSame ? { path: named.pathname } : { path: HUB_PATH, ignored: hubUrl };
}
