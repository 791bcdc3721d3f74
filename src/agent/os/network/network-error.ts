import { clock } from '../../../clock.ts';
import type { Proxy } from './proxy.ts';

/** A request that got no answer of the server: the network, a proxy or a certificate is in the way. Holds no secret. */
export class NetworkError extends Error {
  /** For programs, such as `ECONNREFUSED` or `PROXY_AUTHENTICATION`. */
  readonly code: string;

  constructor(code: string, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'NetworkError';
    this.code = code;
  }
}

const UNKNOWN_AUTHORITY = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

const ADD_AUTHORITY =
  'If the server has a certificate of your own authority, or a proxy decrypts connections, give the certificate of that authority as a PEM file: muster-agent enroll --ca FILE, or MUSTER_CA_FILE.';

/** Explains why `who` (a host and its port) could not be reached, and what to do about it. */
export function explainFailure(error: unknown, who: string, proxy?: Proxy): NetworkError {
  if (error instanceof NetworkError) return error;
  const code = codeOf(error);
  const way = proxy === undefined ? '' : ` through the proxy ${proxy.address}`;
  const fail = (message: string) => new NetworkError(code, message, error);
  if (UNKNOWN_AUTHORITY.has(code)) {
    return fail(
      `The certificate of ${who}${way} is signed by an authority that this machine does not trust (${code}). ${ADD_AUTHORITY}`,
    );
  }
  switch (code) {
    case 'CERT_HAS_EXPIRED':
      return fail(
        `The certificate of ${who}${way} has expired. Renew it on the server. If it is valid, correct the clock of this machine, which shows ${clock.date().toISOString()}.`,
      );
    case 'CERT_NOT_YET_VALID':
      return fail(
        `The certificate of ${who}${way} is not valid yet. Correct the clock of this machine, which shows ${clock.date().toISOString()}.`,
      );
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return fail(
        `The certificate of ${who}${way} is for another name. Enroll with the name that is in the certificate, or correct the certificate of the server.`,
      );
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return fail(`The name of ${who} cannot be resolved (${code}). Check the name and the DNS.`);
    default:
      return fail(`${who}${way} could not be reached (${code}). Check the address and the firewall.`);
  }
}

/** Explains why a proxy could not be used. */
export function explainProxyFailure(error: unknown, proxy: Proxy): NetworkError {
  if (error instanceof NetworkError) return error;
  const code = codeOf(error);
  const who = `The proxy ${proxy.address} (from ${proxy.source})`;
  if (code.startsWith('HPE_')) {
    return new NetworkError('PROXY_INVALID', `${who} does not answer like an HTTP proxy (${code}).`, error);
  }
  if (UNKNOWN_AUTHORITY.has(code) || code.startsWith('CERT_') || code.startsWith('ERR_TLS_')) {
    return explainFailure(error, `the proxy ${proxy.address}`);
  }
  return new NetworkError(
    'PROXY_NOT_REACHED',
    `${who} could not be reached (${code}). Check its address, or exempt the server with NO_PROXY.`,
    error,
  );
}

/** Explains the status with which a proxy has refused to connect to `target`. */
export function explainProxyRefusal(status: number, proxy: Proxy, target: string): NetworkError {
  const who = `The proxy ${proxy.address} (from ${proxy.source})`;
  if (status === 407) {
    const reason = proxy.hasPassword
      ? 'does not accept the user name and password that are configured for it.'
      : 'requires a user name and a password. Configure it as http://USER:PASSWORD@HOST:PORT.';
    return new NetworkError('PROXY_AUTHENTICATION', `${who} ${reason}`);
  }
  return new NetworkError(
    'PROXY_REFUSED',
    `${who} refuses to connect to ${target} (status ${status}). Allow ${target} at the proxy.`,
  );
}

function codeOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return codeOf(error.errors[0]);
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') return error.code;
  return error instanceof Error ? error.name : 'unknown error';
}
