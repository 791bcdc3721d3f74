import { Alert, Group, Text } from '@mantine/core';
import { IconCheck, type Icon } from '@tabler/icons-react';
import type { ComponentPropsWithRef, ReactNode } from 'react';
import { partSentence } from './format.ts';
import { TONES, type Tone } from './status.tsx';
import classes from './notes.module.css';

/**
 * A note in a frame, above or between what it is about. Its tone gives it a color and an icon, as in the badge of a
 * state: a fault is bad, what needs care is a warning, and what was done is good.
 */
export function Notice({
  tone,
  icon,
  title,
  onClose,
  actions,
  children,
  ...given
}: Pick<ComponentPropsWithRef<'div'>, 'role' | 'ref' | 'tabIndex'> & {
  tone: Tone;
  /** In place of the icon of the tone. */
  icon?: Icon;
  title?: ReactNode;
  /** Puts a button into the corner that closes it. */
  onClose?: () => void;
  /** Buttons behind the text, to act on it. */
  actions?: ReactNode;
  children?: ReactNode;
}) {
  const { color, icon: usual } = TONES[tone];
  const Shown = icon ?? usual;
  return (
    <Alert
      {...given}
      className={classes['notice'] ?? ''}
      color={color}
      icon={<Shown aria-hidden />}
      title={title}
      // The color alone is too pale on its own ground.
      styles={{ title: { color: 'var(--mantine-color-text)' } }}
      {...(onClose === undefined ? {} : { withCloseButton: true, closeButtonLabel: 'Close', onClose })}
    >
      {actions === undefined ? (
        children
      ) : (
        <Group gap="xs">
          <Text size="sm">{children}</Text>
          {actions}
        </Group>
      )}
    </Alert>
  );
}

/** Shows the result of an action, and the next step, until it is closed. */
export function Done({
  icon = IconCheck,
  ...notice
}: {
  title: string;
  icon?: Icon;
  onClose: () => void;
  children: ReactNode;
}) {
  return <Notice tone="good" icon={icon} {...notice} />;
}

/** Stands below a list, and says if it is only a part of all entries. */
export function PartNote({ listed, ...whole }: { listed: number } & Parameters<typeof partSentence>[1]) {
  const sentence = partSentence(listed, whole);
  return sentence === undefined ? null : <Text size="sm">{sentence}</Text>;
}
