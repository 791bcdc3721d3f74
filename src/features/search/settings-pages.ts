/** Settings pages that search can find. */
export interface SettingsPage {
  id: string;
  title: string;
  description: string;
  href: string;
  /** Without this permission, the page would be empty. */
  permission?: string;
}

const page = (id: string, title: string, description: string, permission?: string): SettingsPage => ({
  id: `settings.${id}`,
  title,
  description,
  href: `/settings/${id}`,
  ...(permission === undefined ? {} : { permission }),
});

export const SETTINGS_PAGES: readonly SettingsPage[] = [
  page('profile', 'Profile', 'Your name, e-mail address and sessions'),
  page('password', 'Password', 'Change your password'),
  page('two-factor', 'Two-factor authentication', 'Authenticator app and recovery codes'),
  page('api-keys', 'API keys', 'Access for programs, with scopes and expiry'),
  page(
    'partner',
    'Company',
    'Name, contact, business hours, time zone and date format',
    'organizations:read',
  ),
  page('ip-allowlist', 'IP allowlist', 'Addresses from which users may sign in', 'organizations:write'),
  page(
    'organizations',
    'Organizations',
    'Customers, their contracts, order and device limits',
    'organizations:read',
  ),
  page('sites', 'Sites', 'Locations of a customer, with address and time zone', 'sites:read'),
  page('users', 'Users', 'People, invitations and their access', 'users:read'),
  page('roles', 'Roles and permissions', 'What people may do', 'users:read'),
  page('enrollment-keys', 'Enrollment keys', 'Keys with which agents enroll new devices', 'devices:write'),
  page('custom-fields', 'Custom fields', 'Additional device fields and their types', 'devices:read'),
  page('groups', 'Device groups', 'Static groups, and dynamic ones that follow a filter', 'devices:read'),
  page('filters', 'Saved filters', 'Saved conditions that find devices', 'filters:read'),
  page(
    'alerts',
    'Alert thresholds',
    'When alerts are raised for offline devices and full disks',
    'alerts:read',
  ),
  page('log-retention', 'Log retention', 'How many days device and agent logs are kept', 'devices:read'),
  page(
    'audit-retention',
    'Audit retention',
    'How many days the audit trail is kept, and its archive',
    'audit:read',
  ),
  page('audit', 'Audit trail', 'Who did what, reports and exports', 'audit:read'),
];
