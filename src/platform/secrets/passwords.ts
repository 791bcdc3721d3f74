import { hash, hashRaw, verify } from '@node-rs/argon2';

/** argon2id (the library's default) at OWASP's minimum: 19 MiB, two passes, one lane; about 25 ms of one core. */
const PARAMETERS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };

/** A hash whose password is unknown: checked against for unknown users, so that they take as long as known ones. */
let decoy: Promise<string> | undefined;

export async function hashPassword(password: string): Promise<string> {
  return inTurn(() => hash(password, PARAMETERS));
}

/** Whether the password fits the hash; equal work if there is no hash. */
export async function verifyPassword(
  passwordHash: string | null | undefined,
  password: string,
): Promise<boolean> {
  decoy ??= hashPassword('no one has this password');
  const known = passwordHash ?? (await decoy);
  const fits = await inTurn(() => verify(known, password));
  return fits && passwordHash != null;
}

/** A hash that is always the same for the same input, so that it can be looked up: for short codes, salted by user. */
export async function hashWithSalt(code: string, salt: Uint8Array): Promise<string> {
  return (await inTurn(() => hashRaw(code, { ...PARAMETERS, salt }))).toString('hex');
}

/** Each hash takes a worker thread and 19 MiB, so few run at once and the rest wait their turn. */
const MAX_AT_ONCE = 3;
let running = 0;
const waiting: (() => void)[] = [];

export async function inTurn<T>(work: () => Promise<T>): Promise<T> {
  if (running >= MAX_AT_ONCE) await new Promise<void>((resolve) => waiting.push(resolve));
  else running++;
  try {
    return await work();
  } finally {
    const next = waiting.shift();
    if (next === undefined) running--;
    else next();
  }
}
