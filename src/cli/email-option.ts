import { InvalidArgumentError } from 'commander';
import { EmailAddress } from '../email-address.ts';

/** Reads the value of an option that is the address of a person. */
export function parseEmail(text: string): string {
  const parsed = EmailAddress.safeParse(text);
  if (!parsed.success) throw new InvalidArgumentError('Must be an e-mail address.');
  return parsed.data;
}
