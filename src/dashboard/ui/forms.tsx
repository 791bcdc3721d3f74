import { Button, Group, Stack } from '@mantine/core';
import { useEffect, useRef, type ReactNode } from 'react';
import { FormFields, type Fields, type Form } from './fields.tsx';
import { Action } from './action.tsx';
import { Failure } from './states.tsx';
import { useSubmit } from './submit.ts';
import { Modal } from './overlay.tsx';

/**
 * A form in a dialog. Its fields are declared: `fields` of a `form` of `useForm`, and `children` gets the rules that
 * values break for what is no field of that form. The rule is shown at the field, and nothing that was typed is lost by
 * a refusal.
 * @example <FormDialog form={form} fields={[{ name: 'name', label: 'Name', required: true }]} submit={…} … />
 */
export function FormDialog<V extends object = object>({
  title,
  opened = true,
  onClose,
  submit,
  onDone = onClose,
  submitLabel,
  refusal,
  size = 'md',
  form,
  fields = [],
  children,
}: {
  title: string;
  /** Without it, the dialog is open as long as it is drawn. */
  opened?: boolean;
  onClose: () => void;
  /** Sends the form. */
  submit: () => Promise<unknown>;
  /** Called when the request has succeeded. Without it, the dialog closes. */
  onDone?: () => void;
  /** The verb on the button. */
  submitLabel: string;
  /** Why it cannot be sent now. */
  refusal?: string | undefined;
  size?: string;
  form?: Form<V>;
  fields?: Fields<NoInfer<V>>;
  children?: (faults: Record<string, string>) => ReactNode;
}) {
  const { onSubmit, isBusy, failure, faults, forget } = useSubmit(async () => {
    if (refusal !== undefined) return;
    await submit();
    onDone();
  });
  const buttons = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // A refusal comes in above the buttons, and moves the one that has the focus out of a dialog that is longer than the screen.
    if (failure !== undefined) buttons.current?.scrollIntoView({ block: 'nearest' });
  }, [failure]);
  const close = () => {
    forget();
    onClose();
  };
  return (
    <Modal opened={opened} onClose={close} title={title} size={size}>
      <form onSubmit={onSubmit}>
        <Stack gap="sm">
          {form !== undefined && <FormFields form={form} fields={fields} faults={faults} />}
          {children?.(faults)}
          {failure !== undefined && <Failure error={failure} />}
          <Group ref={buttons} justify="flex-end">
            <Button variant="default" onClick={close}>
              Cancel
            </Button>
            {refusal === undefined ? (
              <Button type="submit" loading={isBusy}>
                {submitLabel}
              </Button>
            ) : (
              <Action refusal={refusal} onClick={() => undefined}>
                {submitLabel}
              </Action>
            )}
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
