import { HUB_PATH } from '../../../protocol/index.ts';

/** Which server addresses the agent accepts: nobody on the way may read or change the connection. */

export const INSECURE_WARNING =
  'The connection to the server is not encrypted (--insecure-http). Anyone who can change it on the way controls this machine. Use this in laboratories only.';

export const INSECURE_REFUSAL =
  'The address of the server must begin with https://. Over http://, anyone on the way could take over this machine. In a laboratory without certificates, enroll with --insecure-http.';

/**
 * The path of the hub, which the server gives as a path or as an absolute URL. A URL of another host, or a less secure
 * one, is ignored: changing the server's settings must not be enough to send its agents elsewhere.
 */
export function hubPathOf(server: string, hubUrl: string): { path: string; ignored?: string } {
  const base = URL.parse(server);
  const named = URL.parse(hubUrl, server);
  if (base === null || named === null) return { path: HUB_PATH, ignored: hubUrl };
  const protocol = named.protocol.replace(/^ws/, 'http');
  const isSame = named.host === base.host && protocol === base.protocol && named.username === '';
  return isSame ? { path: named.pathname } : { path: HUB_PATH, ignored: hubUrl };
}
