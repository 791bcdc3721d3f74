import { Anchor, List, Stack, Text } from '@mantine/core';
import { Link, type LinkProps } from '@tanstack/react-router';
import { refusalOf, useMe, type Requirement } from '../../session/index.ts';
import { SettingsFrame } from './settings-frame.tsx';

interface Place {
  to: NonNullable<LinkProps['to']>;
  label: string;
  what: string;
  requires?: Requirement;
}

/** What accounts without a company of their own can set up: system administrators, and people of a customer. */
const PLACES: readonly Place[] = [
  { to: '/providers', label: 'Providers', what: 'create and change them', requires: { scopes: ['system'] } },
  {
    to: '/organizations',
    label: 'Organizations',
    what: 'customers, their sites and limits',
    requires: { permission: 'organizations:read', scopes: ['system'] },
  },
  { to: '/people', label: 'People', what: 'invitations, roles and access', requires: 'users:read' },
  {
    to: '/agents',
    label: 'Agents',
    what: 'register, promote and roll out releases of the agent',
    requires: { scopes: ['system'] },
  },
  { to: '/enrollment', label: 'Enrollment', what: 'keys for new machines', requires: 'agents:read' },
  { to: '/settings/sso', label: 'Single sign-on', what: 'identity providers', requires: 'sso:read' },
  {
    to: '/settings/alerts',
    label: 'Alert thresholds',
    what: 'when an alert is raised',
    requires: 'alerts:read',
  },
  { to: '/settings/retention', label: 'Retention', what: 'how long records are kept' },
  {
    to: '/settings/webhooks',
    label: 'Webhooks',
    what: 'events for other systems',
    requires: 'webhooks:read',
  },
  { to: '/audit', label: 'Audit', what: 'who has changed what', requires: 'audit:read' },
  {
    to: '/system',
    label: 'System health',
    what: 'whether this server can do its work',
    requires: { scopes: ['system'] },
  },
  { to: '/profile', label: 'Profile', what: 'your password and two-factor authentication' },
];

export function SettingsOverview() {
  const me = useMe();
  return (
    <SettingsFrame
      title="Settings"
      description={me.scope === 'system' ? 'What a system administrator can set up.' : 'What you can set up.'}
    >
      <Stack>
        <List spacing="xs" size="sm">
          {PLACES.filter(({ requires }) => refusalOf(me, requires) === undefined).map(
            ({ to, label, what }) => (
              <List.Item key={label}>
                <Anchor size="sm" renderRoot={(props) => <Link {...props} to={to} />}>
                  {label}
                </Anchor>
                : {what}
              </List.Item>
            ),
          )}
        </List>
        {me.scope === 'system' && (
          <Text size="sm" c="dimmed">
            Company, security and branding belong to each provider, whose own people change them. Mail,
            database and addresses of the server are settings of the machine that it runs on.
          </Text>
        )}
      </Stack>
    </SettingsFrame>
  );
}
