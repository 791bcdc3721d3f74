import { bounded, byRules, cascade } from '../../platform/db/retention/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { invitationRetention } from './invitations/retention.ts';
import { userRoutes } from './user.routes.ts';

export { knownPeople, type KnownPerson } from './members/known-people.ts';
export { membersAmong, type SignInFacts } from './members/members-among.ts';
export { invitationLimits } from './invitations/invitation-limits.ts';
export { joinAsExistingUser, joinAsNewUser, openInvitation } from './invitations/acceptance.service.ts';
export {
  type AccountEnding,
  endCredentials,
  forgetOpenLinks,
  removeUnverifiedSetup,
  resetUnverifiedAccount,
} from './accounts/account-ending.ts';
export type { BreakGlassGuard } from './accounts/break-glass-guard.ts';
export { endSessionsOf } from './accounts/user-sessions.ts';
export { addMembership } from './accounts/membership.queries.ts';
export {
  createSystemAdmin,
  disableAdminMfa,
  listSystemAdmins,
  resetAdminPassword,
} from './accounts/system-admins.ts';
export { createFirstAdmin, findUserByEmail } from './accounts/user.service.ts';
export { SYSTEM_ROLES, User } from './accounts/user.model.ts';

export const feature = defineFeature({
  name: 'users',
  routes: (parts: Parameters<typeof userRoutes>[0]) => [userRoutes(parts)],
  tables: [
    bounded('users', CREATED_BY_PEOPLE),
    cascade('system_users', 'users'),
    cascade('partner_users', 'users'),
    cascade('organization_users', 'users'),
    ...byRules(invitationRetention),
    // Written by releases before migration 0030; a person has at most one.
    cascade('invitations', 'users'),
  ],
});
