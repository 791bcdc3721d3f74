import { Anchor, Group } from '@mantine/core';
import { Link } from '@tanstack/react-router';

const TABS = [
  { to: '/audit', label: 'Entries' },
  { to: '/audit/reports', label: 'Reports' },
  { to: '/audit/chain', label: 'Chain and keys' },
] as const;

/** The way between the pages of the audit trail. */
export function AuditTabs() {
  return (
    <Group component="nav" aria-label="Pages of the audit trail" gap="md">
      {TABS.map(({ to, label }) => (
        <Anchor
          key={to}
          size="sm"
          renderRoot={(props) => (
            <Link
              {...props}
              to={to}
              activeOptions={{ exact: true, includeSearch: false }}
              activeProps={{ style: { fontWeight: 700 } }}
            />
          )}
        >
          {label}
        </Anchor>
      ))}
    </Group>
  );
}
