import { bounded, byRules, cascade } from '../../platform/db/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { invitationRetention } from './user.model.ts';
import { userRoutes } from './user.routes.ts';

export {
  knownPeople,
  type KnownPerson,
  membersAmong,
  type SignInFacts,
  addMembership,
  userSearch,
} from './user.queries.ts';
export { invitationLimits, joinAsExistingUser, joinAsNewUser, openInvitation } from './invitation.service.ts';
export {
  type AccountEnding,
  endCredentials,
  deleteOpenLinks,
  removeUnverifiedSetup,
  resetUnverifiedAccount,
  endSessionsOf,
  createSystemAdmin,
  disableAdminMfa,
  listSystemAdmins,
  resetAdminPassword,
  createFirstAdmin,
  findUserByEmail,
} from './user.service.ts';
export type { BreakGlassGuard } from './member.service.ts';
export { SYSTEM_ROLES, User } from './user.model.ts';

export const feature = defineFeature({
  name: 'users',
  routes: (parts: Parameters<typeof userRoutes>[0]) => [userRoutes(parts)],
  tables: [
    bounded('users', CREATED_BY_PEOPLE),
    cascade('system_users', 'users'),
    cascade('partner_users', 'users'),
    cascade('organization_users', 'users'),
    ...byRules(invitationRetention),
    // No code writes it; a person has at most one.
    cascade('invitations', 'users'),
  ],
});
