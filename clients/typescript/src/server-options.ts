/** An API key or an access token. A function is asked each time that one is needed. */
export type Token = string | (() => string | Promise<string>);

export interface ServerOptions {
  /** The address of the server, such as `https://muster.example.com`. */
  server: string;
  token: Token;
}

export const tokenOf = async (token: Token): Promise<string> => (typeof token === 'string' ? token : token());

const HERE = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/** The address of the server without its path. A key goes unencrypted to this machine only. */
export function originOf(server: string): string {
  const { protocol, hostname, origin } = new URL(server);
  if (protocol === 'https:' || (protocol === 'http:' && HERE.test(hostname))) return origin;
  throw new TypeError('The server must be an https address: everybody on the way could read the key.');
}
