import { type SyntheticEvent, useState } from 'react';
import { ApiError } from '../api/index.ts';
import { asError } from './states.tsx';

/** The parts of forms that need no declared fields. The pages of the sign-in load only these. */

/** Sends a form once at a time, and keeps what the server says against it: as a whole, and for each field. */
export function useSubmit(send: () => Promise<unknown>) {
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState<Error>();
  const submit = async (event: SyntheticEvent) => {
    event.preventDefault();
    setBusy(true);
    setFailure(undefined);
    try {
      await send();
    } catch (thrown) {
      setFailure(asError(thrown));
    } finally {
      setBusy(false);
    }
  };
  const faults = failure instanceof ApiError ? failure.fields : {};
  return {
    onSubmit: (event: SyntheticEvent) => void submit(event),
    isBusy,
    failure,
    faults,
    /** Drops the failure, as when the form is closed. */
    forget: () => setFailure(undefined),
  };
}

/**
 * Properties of a field for the address of a person. Not `type="email"`: browsers refuse letters that are not ASCII in it,
 * and write domains in another form than the person does. The server says what is wrong with an address.
 */
export const EMAIL_INPUT = {
  type: 'text',
  inputMode: 'email',
  autoCapitalize: 'none',
  spellCheck: false,
} as const;

/** The time zones that the browser knows, UTC first. */
export const TIME_ZONES: readonly string[] = [
  'UTC',
  ...Intl.supportedValuesOf('timeZone').filter((zone) => zone !== 'UTC'),
];

/** A short name for addresses, made from a name: "Bright Smile Dental" → "bright-smile-dental". */
export const slugOf = (name: string): string =>
  name
    .normalize('NFKD')
    .replaceAll(/\p{Mark}/gu, '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 60);
