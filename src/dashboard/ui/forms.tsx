import { Button, Group, Modal, Stack } from '@mantine/core';
import type { ReactNode } from 'react';
import { Failure } from '../states.tsx';
import { useSubmit } from './use-submit.ts';

/**
 * A form in a dialog. The rule that a field breaks is shown at the field: `children` gets the rules by the path of the
 * field, as the API names it. Nothing that was typed is lost by a refusal.
 * @example <FormDialog …>{(faults) => <TextInput label="Name" error={faults['name']} … />}</FormDialog>
 */
export function FormDialog({
  title,
  opened,
  onClose,
  submit,
  onDone = onClose,
  submitLabel,
  size = 'md',
  children,
}: {
  title: string;
  opened: boolean;
  onClose: () => void;
  /** Sends the form. */
  submit: () => Promise<unknown>;
  /** What happens when that has succeeded. Without it, the dialog closes. */
  onDone?: () => void;
  /** The verb on the button. */
  submitLabel: string;
  size?: string;
  children: (faults: Record<string, string>) => ReactNode;
}) {
  const { onSubmit, isBusy, failure, faults, forget } = useSubmit(async () => {
    await submit();
    onDone();
  });
  const close = () => {
    forget();
    onClose();
  };
  return (
    <Modal opened={opened} onClose={close} title={title} size={size}>
      <form onSubmit={onSubmit}>
        <Stack gap="sm">
          {children(faults)}
          {failure !== undefined && <Failure error={failure} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={close}>
              Cancel
            </Button>
            <Button type="submit" loading={isBusy}>
              {submitLabel}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
