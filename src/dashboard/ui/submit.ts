import { useState, type SyntheticEvent } from 'react';
import { ApiError } from '../../api/index.ts';
import { asError } from '../as-error.ts';

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
