import { Button, Group, Stack, type MantineColor } from '@mantine/core';
import { useState, type ReactNode, type SyntheticEvent } from 'react';
import { asError, Failure } from '../../../ui/index.ts';

/** The form within a dialog: it closes when its action has worked, and says why where it has not. */
export function DialogForm({
  confirm,
  color,
  isReady = true,
  run,
  onClose,
  children,
}: {
  /** The verb on the button. */
  confirm: string;
  color?: MantineColor;
  isReady?: boolean;
  run: () => Promise<unknown>;
  onClose: () => void;
  children: ReactNode;
}) {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<Error>();
  const submit = async (event: SyntheticEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      await run();
      onClose();
    } catch (thrown) {
      setError(asError(thrown));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form onSubmit={(event) => void submit(event)}>
      <Stack>
        {children}
        {error !== undefined && <Failure error={error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button
            type="submit"
            loading={isBusy}
            disabled={!isReady}
            {...(color === undefined ? {} : { color })}
          >
            {confirm}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
