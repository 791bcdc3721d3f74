import type { Request } from 'express';

/**
 * Whether the client has a copy with this tag (RFC 9110, 13.1.2). Asked here and not by Express, because `fetch` sends
 * `Cache-Control: no-cache` along, for which Express sends everything again.
 */
export function isKnownTo({ headers }: Pick<Request, 'headers'>, tag: string): boolean {
  const known = (headers['if-none-match'] ?? '').split(',').map((each) => each.trim().replace(/^W\//, ''));
  return known.includes('*') || known.includes(`"${tag}"`);
}
