// What an authenticator has answered, checked without the database. The library checks the answers; here stands what it
// leaves open: answers from within a foreign frame, and attestations with certificates, for whose revocation lists it
// would ask addresses that the certificate names (docs/decisions/passkeys.md).
import { z } from 'zod';
import type { Assertion, RegistrationAnswer } from './passkey.schema.ts';

/** Loaded with the first passkey: it takes half a second and 27 MB. */
const library = () => import('@simplewebauthn/server');
const helpers = () => import('@simplewebauthn/server/helpers');

/** The server, as authenticators know it: a passkey belongs to the host of the public address. */
export interface RelyingParty {
  id: string;
  origin: string;
}

/** The path of the address does not matter, nor does a proxy in front of the server. */
export function relyingPartyOf(publicUrl: string): RelyingParty {
  const { hostname, origin } = new URL(publicUrl);
  return { id: hostname, origin };
}

/** EdDSA, ES256 and RS256 by their numbers in COSE (RFC 9053), in the order of preference. */
export const ALGORITHMS = [-8, -7, -257];

/** In bytes, as the table has it: twice a key of RSA with 4,096 bits. */
const PUBLIC_KEY_MAX = 1024;

const ClientData = z.object({ challenge: z.string().min(1).max(200), crossOrigin: z.boolean().optional() });

/** The challenge that an answer names; `undefined` if the answer is of no use. */
export function challengeIn(clientDataJSON: string): string | undefined {
  const parsed = ClientData.safeParse(jsonOf(Buffer.from(clientDataJSON, 'base64url').toString()));
  return parsed.success && parsed.data.crossOrigin !== true ? parsed.data.challenge : undefined;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Why an answer is not accepted: for the log, not for the person who sent it. */
export interface Fault {
  fault: string;
}

export interface Credential {
  credentialId: string;
  publicKey: Buffer;
  signCount: number;
  transports: string[];
  synced: boolean;
}

/** The new key in a registration. User verification is required, because a passkey is also a sign-in of its own. */
export async function checkRegistration(
  answer: RegistrationAnswer,
  { challenge, party }: { challenge: string; party: RelyingParty },
): Promise<Credential | Fault> {
  return checked(async () => {
    await assertNoCertificates(answer.response.attestationObject);
    const { verifyRegistrationResponse } = await library();
    const { verified, registrationInfo } = await verifyRegistrationResponse({
      response: { ...answer, response: ofLibrary(answer.response), clientExtensionResults: {} },
      expectedChallenge: challenge,
      expectedOrigin: party.origin,
      expectedRPID: party.id,
      requireUserVerification: true,
      supportedAlgorithmIDs: ALGORITHMS,
    });
    if (!verified) return { fault: 'The attestation is not valid.' };
    const { credential, credentialBackedUp } = registrationInfo;
    if (credential.id !== answer.id) return { fault: 'The id is not that of the new key.' };
    if (credential.publicKey.length > PUBLIC_KEY_MAX) return { fault: 'The key is too long.' };
    return {
      credentialId: credential.id,
      publicKey: Buffer.from(credential.publicKey),
      signCount: credential.counter,
      transports: answer.response.transports ?? [],
      synced: credentialBackedUp,
    };
  });
}

/** The names of transports are hints for browsers, so those that the library does not know yet are kept as well. */
const ofLibrary = ({ clientDataJSON, attestationObject }: RegistrationAnswer['response']) => ({
  clientDataJSON,
  attestationObject,
});

/** No attestation is asked for; some authenticators sign one with the new key itself. */
async function assertNoCertificates(attestationObject: string): Promise<void> {
  const { decodeAttestationObject } = await helpers();
  const decoded = decodeAttestationObject(Uint8Array.from(Buffer.from(attestationObject, 'base64url')));
  const format = decoded.get('fmt');
  const isPlain =
    format === 'none' || (format === 'packed' && decoded.get('attStmt').get('x5c') === undefined);
  if (!isPlain) throw new Error(`An attestation of the format ${format} was not asked for.`);
}

export interface Shown {
  signCount: number;
  synced: boolean;
}

/** Whether the holder of a registered key has signed the challenge. The count of signatures is judged by the caller. */
export async function checkAssertion(
  answer: Assertion,
  { credentialId, publicKey }: Pick<Credential, 'credentialId' | 'publicKey'>,
  {
    challenge,
    party,
    requireUserVerification,
  }: { challenge: string; party: RelyingParty; requireUserVerification: boolean },
): Promise<Shown | Fault> {
  return checked(async () => {
    const { clientDataJSON, authenticatorData, signature } = answer.response;
    const { verifyAuthenticationResponse } = await library();
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response: {
        ...answer,
        response: { clientDataJSON, authenticatorData, signature },
        clientExtensionResults: {},
      },
      expectedChallenge: challenge,
      expectedOrigin: party.origin,
      expectedRPID: party.id,
      requireUserVerification,
      credential: { id: credentialId, publicKey: Uint8Array.from(publicKey), counter: 0 },
    });
    if (!verified) return { fault: 'The signature is not valid.' };
    return { signCount: authenticationInfo.newCounter, synced: authenticationInfo.credentialBackedUp };
  });
}

/** The library's sentences quote what was sent. */
const FAULT_MAX = 200;

/** The library throws an error for whatever it does not accept, and for what it cannot read. */
async function checked<T>(check: () => Promise<T | Fault>): Promise<T | Fault> {
  try {
    return await check();
  } catch (error) {
    return { fault: (error instanceof Error ? error.message : String(error)).slice(0, FAULT_MAX) };
  }
}

/** Counts go up; those of authenticators that do not count stay at zero. Anything else is a copy of the key (WebAuthn, 6.1.1). */
export const isCountBack = (stored: number, shown: number): boolean =>
  (stored > 0 || shown > 0) && shown <= stored;

/** The person as authenticators know them: the bytes of the id. It names nobody to those who do not know the id. */
export const userHandleOf = (userId: string): string =>
  Buffer.from(userId.replaceAll('-', ''), 'hex').toString('base64url');
