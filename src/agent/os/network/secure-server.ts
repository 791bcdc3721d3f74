import { isIPv4 } from 'node:net';

/** True for an encrypted connection, and for one that never leaves this machine. */
export function isSecureServer(server: string): boolean {
  const url = URL.parse(server);
  if (url === null) return false;
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname));
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || (isIPv4(host) && host.startsWith('127.'));
}
