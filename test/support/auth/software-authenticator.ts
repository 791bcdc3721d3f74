import {
  createHash,
  generateKeyPairSync,
  type JsonWebKey,
  type KeyObject,
  randomBytes,
  sign,
} from 'node:crypto';

/** An authenticator without a device: it makes keys, and signs what a test tells it to, right or wrong. */

type Algorithm = 'ES256' | 'ES384' | 'EdDSA' | 'RS256';

/** What an attacker, or a broken authenticator, says in place of the truth. */
export interface Untruth {
  challenge?: string;
  origin?: string;
  rpId?: string;
  type?: string;
  crossOrigin?: boolean;
  userVerified?: boolean;
  signCount?: number;
  userHandle?: string | null;
  /** A public key in place of the one that signs. */
  publicKey?: Buffer;
  /** The id of another key than the one that signs. */
  credentialId?: string;
  attestation?: 'none' | 'packed' | 'packed with certificates' | 'fido-u2f';
}

/** The parts of the server's questions that an authenticator reads. */
interface CreationQuestion {
  challenge: string;
  rp: { id: string };
  user: { id: string };
}
interface RequestQuestion {
  challenge: string;
  rpId: string;
}

const FLAGS = { present: 0x01, verified: 0x04, attested: 0x40 };

export class SoftwareAuthenticator {
  readonly credentialId: string;
  /** Zero for an authenticator that does not count. */
  signCount: number;
  readonly #origin: string;
  readonly #algorithm: Algorithm;
  readonly #privateKey: KeyObject;
  readonly #publicKey: Buffer;
  #userHandle: string | undefined;

  constructor(
    origin: string,
    {
      algorithm = 'ES256',
      signCount = 0,
      credentialId = randomBytes(32).toString('base64url'),
    }: { algorithm?: Algorithm; signCount?: number; credentialId?: string } = {},
  ) {
    const { publicKey, privateKey } = keysOf(algorithm);
    this.#origin = origin;
    this.#algorithm = algorithm;
    this.#privateKey = privateKey;
    this.#publicKey = coseKey(algorithm, publicKey.export({ format: 'jwk' }));
    this.credentialId = credentialId;
    this.signCount = signCount;
  }

  /** Answers `navigator.credentials.create`. */
  create(question: CreationQuestion, untruth: Untruth = {}) {
    this.#userHandle = question.user.id;
    const clientData = this.#clientData('webauthn.create', question.challenge, untruth);
    const id = Buffer.from(this.credentialId, 'base64url');
    const length = Buffer.alloc(2);
    length.writeUInt16BE(id.length);
    const publicKey = untruth.publicKey ?? this.#publicKey;
    const attested = Buffer.concat([Buffer.alloc(16), length, id, publicKey]);
    const authData = this.#authData(question.rp.id, FLAGS.attested, untruth, attested);
    const { attestation = 'none' } = untruth;
    const signature = this.#sign(Buffer.concat([authData, sha256(clientData)]));
    const alg = COSE_ALGORITHM[this.#algorithm];
    const statements = {
      none: [],
      packed: [
        ['alg', alg],
        ['sig', signature],
      ],
      'packed with certificates': [
        ['alg', alg],
        ['sig', signature],
        ['x5c', [Buffer.from('no certificate')]],
      ],
      'fido-u2f': [
        ['sig', signature],
        ['x5c', [Buffer.from('no certificate')]],
      ],
    } satisfies Record<string, [string, Cbor][]>;
    const object = cbor(
      new Map<Cbor, Cbor>([
        ['fmt', attestation.replace(' with certificates', '')],
        ['attStmt', new Map<Cbor, Cbor>(statements[attestation])],
        ['authData', authData],
      ]),
    );
    const name = untruth.credentialId ?? this.credentialId;
    return {
      id: name,
      rawId: name,
      type: 'public-key',
      clientExtensionResults: {},
      response: {
        clientDataJSON: clientData.toString('base64url'),
        attestationObject: object.toString('base64url'),
        transports: ['internal', 'hybrid'],
      },
    };
  }

  /** Answers `navigator.credentials.get`. Each answer raises the count of an authenticator that counts. */
  get(question: RequestQuestion, untruth: Untruth = {}) {
    if (this.signCount > 0 && untruth.signCount === undefined) this.signCount++;
    const clientData = this.#clientData('webauthn.get', question.challenge, untruth);
    const authData = this.#authData(question.rpId, 0, untruth);
    const signature = this.#sign(Buffer.concat([authData, sha256(clientData)]));
    const name = untruth.credentialId ?? this.credentialId;
    const userHandle = untruth.userHandle === undefined ? this.#userHandle : untruth.userHandle;
    return {
      id: name,
      rawId: name,
      type: 'public-key',
      clientExtensionResults: {},
      response: {
        clientDataJSON: clientData.toString('base64url'),
        authenticatorData: authData.toString('base64url'),
        signature: signature.toString('base64url'),
        userHandle,
      },
    };
  }

  #clientData(type: string, challenge: string, untruth: Untruth): Buffer {
    const { origin = this.#origin, crossOrigin = false } = untruth;
    return Buffer.from(
      JSON.stringify({
        type: untruth.type ?? type,
        challenge: untruth.challenge ?? challenge,
        origin,
        crossOrigin,
      }),
    );
  }

  #authData(rpId: string, flags: number, untruth: Untruth, attested = Buffer.alloc(0)): Buffer {
    const { userVerified = true, signCount = this.signCount } = untruth;
    const head = Buffer.alloc(5);
    head.writeUInt8(flags | FLAGS.present | (userVerified ? FLAGS.verified : 0));
    head.writeUInt32BE(signCount, 1);
    return Buffer.concat([sha256(untruth.rpId ?? rpId), head, attested]);
  }

  #sign(data: Buffer): Buffer {
    const digest = { ES256: 'sha256', ES384: 'sha384', RS256: 'sha256', EdDSA: null }[this.#algorithm];
    return sign(digest, data, this.#privateKey);
  }
}

const sha256 = (data: Buffer | string): Buffer => createHash('sha256').update(data).digest();

function keysOf(algorithm: Algorithm): { publicKey: KeyObject; privateKey: KeyObject } {
  switch (algorithm) {
    case 'ES256':
      return generateKeyPairSync('ec', { namedCurve: 'P-256' });
    case 'ES384':
      return generateKeyPairSync('ec', { namedCurve: 'P-384' });
    case 'EdDSA':
      return generateKeyPairSync('ed25519');
    case 'RS256':
      return generateKeyPairSync('rsa', { modulusLength: 2048 });
    default:
      return algorithm satisfies never;
  }
}

/** A key of RSA whose modulus has so many bytes. Nobody has its other half. */
export const rsaKeyOf = (bytes: number): Buffer =>
  cbor(
    new Map<Cbor, Cbor>([
      [1, 3],
      [3, -257],
      [-1, Buffer.alloc(bytes, 0xff)],
      [-2, Buffer.from([1, 0, 1])],
    ]),
  );

const COSE_ALGORITHM = { ES256: -7, ES384: -35, EdDSA: -8, RS256: -257 } as const;

/** A public key in the form of RFC 9052. */
function coseKey(algorithm: Algorithm, { x = '', y = '', n = '', e = '' }: JsonWebKey): Buffer {
  const bytes = (text: string) => Buffer.from(text, 'base64url');
  const alg: [number, Cbor] = [3, COSE_ALGORITHM[algorithm]];
  switch (algorithm) {
    case 'ES256':
    case 'ES384':
      return cbor(
        new Map<Cbor, Cbor>([
          [1, 2],
          alg,
          [-1, algorithm === 'ES256' ? 1 : 2],
          [-2, bytes(x)],
          [-3, bytes(y)],
        ]),
      );
    case 'EdDSA':
      return cbor(new Map<Cbor, Cbor>([[1, 1], alg, [-1, 6], [-2, bytes(x)]]));
    case 'RS256':
      return cbor(new Map<Cbor, Cbor>([[1, 3], alg, [-1, bytes(n)], [-2, bytes(e)]]));
    default:
      return algorithm satisfies never;
  }
}

type Cbor = number | string | Buffer | readonly Cbor[] | ReadonlyMap<Cbor, Cbor>;

/** The part of CBOR (RFC 8949) that authenticators use. */
function cbor(value: Cbor): Buffer {
  if (typeof value === 'number') return value < 0 ? head(1, -1 - value) : head(0, value);
  if (typeof value === 'string') {
    return Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)]);
  }
  if (Buffer.isBuffer(value)) return Buffer.concat([head(2, value.length), value]);
  if (value instanceof Map) {
    const parts = [...value].flatMap(([key, content]) => [cbor(key), cbor(content)]);
    return Buffer.concat([head(5, value.size), ...parts]);
  }
  const items = [...(value as readonly Cbor[])];
  return Buffer.concat([head(4, items.length), ...items.map(cbor)]);
}

function head(major: number, value: number): Buffer {
  if (value < 24) return Buffer.from([(major << 5) | value]);
  if (value < 0x100) return Buffer.from([(major << 5) | 24, value]);
  return Buffer.from([(major << 5) | 25, value >> 8, value & 0xff]);
}
