import { Button, Group, Modal, Stack, Text, Tooltip, type ButtonProps } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useState, type ReactNode } from 'react';
import { asError } from './as-error.ts';
import { Failure } from './states.tsx';

/**
 * A button that says why where it cannot be used. It stays in place and can be focused, so that everybody finds the
 * reason.
 */
export function Action({
  refusal,
  onClick,
  children,
  ...button
}: ButtonProps & {
  /** Why this person may not do it, as `useRefusal` says it; `undefined` where they may. */
  refusal?: string | undefined;
  onClick: () => void;
  children: ReactNode;
}) {
  if (refusal === undefined) {
    return (
      <Button {...button} onClick={onClick}>
        {children}
      </Button>
    );
  }
  return (
    <Tooltip label={refusal} multiline maw={320} events={{ hover: true, focus: true, touch: true }}>
      <Button {...button} data-disabled aria-disabled aria-description={refusal} onClick={() => undefined}>
        {children}
      </Button>
    </Tooltip>
  );
}

/** An action that asks before it acts, and shows the failure in the same place. */
export function ConfirmAction({
  title,
  question,
  confirm,
  run,
  color = 'red',
  refusal,
  children,
  ...button
}: Omit<ButtonProps, 'color'> & {
  title: string;
  /** What will happen, and whether it can be undone. */
  question: ReactNode;
  /** The verb on the button. */
  confirm: string;
  run: () => Promise<unknown>;
  color?: string;
  refusal?: string | undefined;
  children: ReactNode;
}) {
  const [isOpen, { open, close }] = useDisclosure(false);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<Error>();
  const act = async () => {
    setBusy(true);
    setError(undefined);
    try {
      await run();
      close();
    } catch (thrown) {
      setError(asError(thrown));
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Action {...button} refusal={refusal} onClick={open}>
        {children}
      </Action>
      <Modal opened={isOpen} onClose={close} title={title} centered>
        <Stack>
          <Text component="div" size="sm">
            {question}
          </Text>
          {error !== undefined && <Failure error={error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={close}>
              Cancel
            </Button>
            <Button color={color} loading={isBusy} onClick={() => void act()} data-autofocus>
              {confirm}
            </Button>
          </Group>
        </Stack>
      </Modal>
    </>
  );
}
