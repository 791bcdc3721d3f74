import { z } from 'zod';
import { text } from '../primitives.ts';

/**
 * A secret in the payload of a command. The payload is stored by the server and by the agent, and shown to people, so
 * it holds a reference only. The value travels beside the payload in the frame (`CommandFrame.secrets`), and both sides
 * keep it in memory only.
 */
export const SecretRef = z
  .strictObject({ secretRef: z.uuid() })
  .describe('A reference to a secret, whose value is neither stored with the command nor shown.');
export type SecretRef = z.infer<typeof SecretRef>;

export const SECRET_MAX_LENGTH = 4000;

/** The values of the secrets that a payload refers to, by reference. */
export const CommandSecrets = z.record(z.uuid(), text(SECRET_MAX_LENGTH));
export type CommandSecrets = z.infer<typeof CommandSecrets>;

/** Among the capabilities of an agent: it takes the secrets of a command from the frame, and keeps them off its disk. */
export const SECRETS_CAPABILITY = 'commands.secrets';

/** The references within a payload, wherever its schema has them; each once. */
export function secretRefsIn(payload: unknown): string[] {
  const refs = new Set<string>();
  const open: unknown[] = [payload];
  for (let value = open.pop(); value !== undefined || open.length > 0; value = open.pop()) {
    const parsed = SecretRef.safeParse(value);
    if (parsed.success) refs.add(parsed.data.secretRef);
    else if (typeof value === 'object' && value !== null) open.push(...Object.values(value));
  }
  return [...refs];
}
