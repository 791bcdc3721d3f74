import { ActionIcon, Menu, Text } from '@mantine/core';
import { IconDots, type Icon } from '@tabler/icons-react';
import type { ReactNode } from 'react';

/** An action in a menu, which says why if it cannot be used. */
export function MenuEntry({
  icon: Shown,
  refusal,
  onClick,
  children,
}: {
  icon: Icon;
  /** Why this person may not do it, as `useRefusal` says it; `undefined` if they may. */
  refusal: string | undefined;
  onClick: () => void;
  children: string;
}) {
  const refused = refusal !== undefined;
  return (
    <Menu.Item
      leftSection={<Shown size={16} aria-hidden />}
      closeMenuOnClick={!refused}
      aria-disabled={refused}
      {...(refused ? { c: 'dimmed' } : { onClick })}
    >
      {children}
      {refused && <Text size="xs">{refusal}</Text>}
    </Menu.Item>
  );
}

/** The actions of a row of a table that has no room for a button for each. */
export function RowMenu({ label, children }: { label: string; children: ReactNode }) {
  return (
    <Menu position="bottom-end" width={220} withInitialFocusPlaceholder={false}>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" aria-label={label}>
          <IconDots size={16} aria-hidden />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>{children}</Menu.Dropdown>
    </Menu>
  );
}
