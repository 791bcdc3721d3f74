/** Pages of the dashboard with settings that search can find. */
export interface SettingsPage {
  id: string;
  title: string;
  description: string;
  href: string;
  /** Without this permission, the page would be empty. */
  permission?: string;
}

const page = (
  id: string,
  href: string,
  title: string,
  description: string,
  permission?: string,
): SettingsPage => ({
  id: `settings.${id}`,
  title,
  description,
  href,
  ...(permission === undefined ? {} : { permission }),
});

export const SETTINGS_PAGES: readonly SettingsPage[] = [
  page('profile', '/profile', 'Profile', 'Your name, e-mail address and sessions'),
  page('password', '/profile', 'Password', 'Change your password'),
  page('two-factor', '/profile', 'Two-factor authentication', 'Authenticator app and recovery codes'),
  page('api-keys', '/api-keys', 'API keys', 'Access for programs, with scopes and expiry'),
  page(
    'partner',
    '/settings',
    'Company',
    'Name, contact, business hours, time zone and date format',
    'organizations:read',
  ),
  page(
    'notification-policies',
    '/notifications',
    'Notification policies',
    'Who is told about which alerts, when and how',
    'alerts:read',
  ),
  page(
    'notification-channels',
    '/notifications/channels',
    'Notification channels',
    'Mail, Slack, Teams, Discord, PagerDuty, ntfy and webhooks for alerts',
    'alerts:read',
  ),
  page(
    'maintenance',
    '/maintenance',
    'Maintenance windows',
    'Planned times without alerts and upgrades',
    'devices:read',
  ),
  page(
    'ip-allowlist',
    '/settings/security',
    'IP allowlist',
    'Addresses from which users may sign in',
    'organizations:write',
  ),
  page(
    'sso',
    '/settings/sso',
    'Single sign-on',
    'Identity providers, domains and enforcement',
    'organizations:read',
  ),
  page(
    'branding',
    '/settings/branding',
    'Branding',
    'Logo, color and headline of the sign-in page',
    'organizations:write',
  ),
  page(
    'organizations',
    '/organizations',
    'Organizations',
    'Customers, their contracts, order and device limits',
    'organizations:read',
  ),
  page(
    'sites',
    '/organizations',
    'Sites',
    'Locations of a customer, with address and time zone',
    'sites:read',
  ),
  page('users', '/people', 'Users', 'People, invitations and their access', 'users:read'),
  page('roles', '/people/roles', 'Roles and permissions', 'What people may do', 'users:read'),
  page(
    'enrollment-keys',
    '/enrollment',
    'Enrollment keys',
    'Keys with which agents enroll new devices',
    'devices:write',
  ),
  page(
    'custom-fields',
    '/settings/custom-fields',
    'Custom fields',
    'Additional device fields and their types',
    'devices:read',
  ),
  page(
    'groups',
    '/groups',
    'Device groups',
    'Static groups, and dynamic ones that follow a filter',
    'devices:read',
  ),
  page('filters', '/filters', 'Saved filters', 'Saved conditions that find devices', 'filters:read'),
  page(
    'alert-rules',
    '/alerts/rules',
    'Alert rules',
    'On which conditions alerts are raised, about which devices, and how severe they are',
    'alerts:read',
  ),
  page(
    'log-retention',
    '/settings/retention',
    'Log retention',
    'How many days device and agent logs are kept, and what happens when they reach their budget',
    'devices:read',
  ),
  page(
    'audit-retention',
    '/settings/retention',
    'Audit retention',
    'How many days the audit trail is kept, and its archive',
    'audit:read',
  ),
  page(
    'webhooks',
    '/settings/webhooks',
    'Webhooks',
    'Events that are sent to other systems, such as a ticket system',
    'webhooks:read',
  ),
  page('audit', '/audit', 'Audit trail', 'Who did what, reports and exports', 'audit:read'),
];
