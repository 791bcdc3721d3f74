import { Alert, Button, Stack } from '@mantine/core';
import { useState, type ReactNode, type SyntheticEvent } from 'react';
import { ApiError } from '../../api/index.ts';
import { Action, asError, Failure } from '../../ui/index.ts';

/**
 * A form on a page. Says whether it is saved, shows the rule that a field breaks at the field, and says why where the
 * person may not save.
 */
export function SettingsForm({
  label,
  submit,
  submitLabel = 'Save',
  refusal,
  failure: shownFailure,
  maw = 520,
  children,
}: {
  /** What the form sets, for readers of screens. */
  label: string;
  submit: () => Promise<unknown>;
  submitLabel?: string;
  refusal: string | undefined;
  /** What to show in place of a failure that the page knows better. */
  failure?: (error: Error) => ReactNode;
  maw?: number;
  children: (faults: Record<string, string>) => ReactNode;
}) {
  const [isBusy, setBusy] = useState(false);
  const [isSaved, setSaved] = useState(false);
  const [error, setError] = useState<Error>();
  const send = async () => {
    setBusy(true);
    setSaved(false);
    setError(undefined);
    try {
      await submit();
      setSaved(true);
    } catch (thrown) {
      setError(asError(thrown));
    } finally {
      setBusy(false);
    }
  };
  const onSubmit = (event: SyntheticEvent) => {
    event.preventDefault();
    if (refusal === undefined && !isBusy) void send();
  };
  return (
    <form onSubmit={onSubmit} aria-label={label}>
      <Stack gap="sm" maw={maw}>
        {children(error instanceof ApiError ? error.fields : {})}
        {error !== undefined && (shownFailure?.(error) ?? <Failure error={error} />)}
        {isSaved && (
          <Alert color="teal" role="status">
            Saved.
          </Alert>
        )}
        {refusal === undefined ? (
          <Button type="submit" loading={isBusy} style={{ alignSelf: 'flex-start' }}>
            {submitLabel}
          </Button>
        ) : (
          <Action refusal={refusal} style={{ alignSelf: 'flex-start' }} onClick={() => undefined}>
            {submitLabel}
          </Action>
        )}
      </Stack>
    </form>
  );
}
