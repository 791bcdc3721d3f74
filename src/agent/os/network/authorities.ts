import { X509Certificate } from 'node:crypto';
import { open } from 'node:fs/promises';
import tls from 'node:tls';
import { z } from 'zod';

/** The authorities whose certificates the agent accepts: those of the system, and those of the administrator's file. */
export interface Authorities {
  /** The file that was added; `undefined` where only the authorities of the system count. */
  file: string | undefined;
  /** For every TLS connection. It is built once, at the first one, because it takes up to 0.3 s where the store of the system is read. */
  context(): tls.SecureContext;
  /** The certificates of all of them. */
  certificates(): string[];
}

const FILE_MAX_BYTES = 1024 * 1024;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[A-Za-z\d+/=\s]+-----END CERTIFICATE-----/g;

export function systemAuthorities(): Authorities {
  return authorities(undefined, []);
}

/** Reads the certificates of a PEM file. Throws with the reason where it holds none that can be used. */
export async function authoritiesWith(file: string, source: string): Promise<Authorities> {
  return authorities(file, await readCertificates(file, source));
}

/** The certificates of a PEM file, without anything else that is in it. */
export async function readCertificates(file: string, source: string): Promise<string[]> {
  return certificatesIn(await textOf(file, source), file, source);
}

function authorities(file: string | undefined, added: string[]): Authorities {
  let context: tls.SecureContext | undefined;
  const create = () => {
    const system = trustedBySystem();
    if (system !== undefined) return tls.createSecureContext({ ca: [...system, ...added] });
    // Without a list, Node uses its own one, and the file of NODE_EXTRA_CA_CERTS.
    return tls.createSecureContext(added.length === 0 ? {} : { ca: [...tls.rootCertificates, ...added] });
  };
  return {
    file,
    context: () => (context ??= create()),
    certificates: () => [...(trustedBySystem() ?? tls.rootCertificates), ...added],
  };
}

async function textOf(file: string, source: string): Promise<string> {
  try {
    const handle = await open(file, 'r');
    try {
      const found = await handle.stat();
      if (!found.isFile()) throw new Error('it is not a regular file');
      if (found.size > FILE_MAX_BYTES) throw new Error(`it is larger than ${FILE_MAX_BYTES} bytes`);
      return await handle.readFile('latin1');
    } finally {
      await handle.close();
    }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`The file of certificates in ${source} cannot be read: ${file}: ${reason}.`, {
      cause: error,
    });
  }
}

function certificatesIn(text: string, file: string, source: string): string[] {
  const found = text.match(CERTIFICATE) ?? [];
  if (found.length === 0) {
    throw new Error(
      `The file of certificates in ${source} holds no certificate: ${file}. It must be a PEM file, with lines such as -----BEGIN CERTIFICATE-----.`,
    );
  }
  for (const [index, pem] of found.entries()) {
    try {
      void new X509Certificate(pem);
    } catch (error) {
      throw new Error(
        `Certificate ${index + 1} of the file in ${source} cannot be read: ${file}. Export it again as PEM.`,
        { cause: error },
      );
    }
  }
  return found;
}

/**
 * What Node trusts by itself (its own list, and `NODE_EXTRA_CA_CERTS`), and the store of the operating system, where the
 * authority of a company usually is. `undefined` on Node 20, which cannot read that store.
 */
function trustedBySystem(): string[] | undefined {
  if (!('getCACertificates' in tls) || typeof tls.getCACertificates !== 'function') return undefined;
  const { getCACertificates } = tls;
  const listed = (type: 'default' | 'system') => z.array(z.string()).parse(getCACertificates(type));
  return [...new Set([...listed('default'), ...listed('system')])];
}
