/**
 * The pages of the dashboard that the server leads to, in mails and redirects. They need no session,
 * apart from the last four. `search/settings-pages.ts` has those that the search finds.
 */
export const DASHBOARD_PAGES = {
  signIn: '/login',
  forgotPassword: '/forgot-password',
  resetPassword: '/reset-password',
  acceptInvitation: '/accept-invite',
  verifyEmail: '/verify-email',
  profile: '/profile',
  /** Where the browser comes back to after a consent to the backup of Microsoft 365. */
  cloudBackup: '/cloud-backup/connections',
  alerts: '/alerts',
  reports: '/reports',
} as const;
