import {
  Button,
  Group,
  Stack,
  Text,
  Tooltip,
  type ButtonProps,
  ActionIcon,
  Code,
  CopyButton,
} from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconCheck, IconCopy, type Icon } from '@tabler/icons-react';
import { useState, type ReactNode } from 'react';
import { asError, Failure } from './states.tsx';
import { Modal } from './overlay.tsx';

/**
 * A button that says why if it cannot be used. It stays in place and can be focused, so that everybody finds the
 * reason.
 */
export function Action({
  refusal,
  icon: Icon,
  inRow = false,
  onClick,
  children,
  ...given
}: ButtonProps & {
  icon?: Icon;
  /** One of the actions of a row of a table, which are small. */
  inRow?: boolean;
  /** Why this person may not do it, as `useRefusal` says it; `undefined` if they may. */
  refusal?: string | undefined;
  onClick: () => void;
  children: ReactNode;
}) {
  const button: ButtonProps = {
    ...(inRow ? { size: 'compact-xs', variant: 'subtle' } : {}),
    ...(Icon === undefined ? {} : { leftSection: <Icon size={14} aria-hidden /> }),
    ...given,
  };
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

/** An action that is done at once, and shows below the button why it has failed. */
export function RunAction({
  run,
  ...action
}: Omit<Parameters<typeof Action>[0], 'onClick'> & { run: () => Promise<unknown> }) {
  const { isBusy, error, act } = useRun(run);
  return (
    <>
      <Action {...action} loading={isBusy} onClick={act} />
      {error !== undefined && <Failure error={error} />}
    </>
  );
}

/** Runs something once at a time, and keeps why it has failed. */
function useRun(run: () => Promise<unknown>) {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<Error>();
  const start = async () => {
    setBusy(true);
    setError(undefined);
    try {
      await run();
    } catch (thrown) {
      setError(asError(thrown));
    } finally {
      setBusy(false);
    }
  };
  return { isBusy, error, act: () => void start() };
}

/** An action that asks before it acts, and shows the failure in the same place. */
export function ConfirmAction({
  refusal,
  children,
  title,
  question,
  confirm,
  run,
  color,
  ...button
}: Omit<ButtonProps, 'color'> &
  Omit<Confirmation, 'opened' | 'onClose'> & {
    icon?: Icon;
    inRow?: boolean;
    refusal?: string | undefined;
    children: ReactNode;
  }) {
  const [isOpen, { open, close }] = useDisclosure(false);
  return (
    <>
      <Action {...button} refusal={refusal} onClick={open}>
        {children}
      </Action>
      <ConfirmDialog
        opened={isOpen}
        onClose={close}
        title={title}
        question={question}
        confirm={confirm}
        run={run}
        {...(color === undefined ? {} : { color })}
      />
    </>
  );
}

interface Confirmation {
  opened: boolean;
  onClose: () => void;
  title: string;
  /** Says what will happen, and whether it can be undone. */
  question: ReactNode;
  /** The verb on the button. */
  confirm: string;
  run: () => Promise<unknown>;
  color?: string;
}

/** The question of a `ConfirmAction`, for an action that is no button, such as one in a menu. */
export function ConfirmDialog({
  opened,
  onClose,
  title,
  question,
  confirm,
  run,
  color = 'red',
}: Confirmation) {
  const { isBusy, error, act } = useRun(async () => {
    await run();
    onClose();
  });
  return (
    <Modal opened={opened} onClose={onClose} title={title} centered>
      <Stack>
        <Text component="div" size="sm">
          {question}
        </Text>
        {error !== undefined && <Failure error={error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button color={color} loading={isBusy} onClick={act} data-autofocus>
            {confirm}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}

/** Text that people paste elsewhere, such as a command or a key, with a button that copies it. */
export function CopyText({ text, label }: { text: string; label: string }) {
  return (
    <Group gap={4} wrap="nowrap" align="flex-start">
      <Code
        block
        flex={1}
        aria-label={label}
        tabIndex={0}
        style={{ whiteSpace: 'pre-wrap', wordBreak: 'break-all' }}
      >
        {text}
      </Code>
      <CopyButton value={text}>
        {({ copied, copy }) => (
          <Tooltip label={copied ? 'Copied' : 'Copy'}>
            <ActionIcon variant="default" onClick={copy} aria-label={copied ? 'Copied' : `Copy: ${label}`}>
              {copied ? <IconCheck size={16} /> : <IconCopy size={16} />}
            </ActionIcon>
          </Tooltip>
        )}
      </CopyButton>
    </Group>
  );
}
