export { knownPeople, type KnownPerson } from './members/known-people.ts';
export { type InvitationLimits, invitationLimits } from './invitations/invitation-limits.ts';
export { joinAsHolder, joinAsNewHolder, openInvitation } from './invitations/acceptance.service.ts';
export {
  type AccountEnding,
  displace,
  endCredentials,
  endUnprovedHolding,
  forgetOpenLinks,
} from './accounts/account-ending.ts';
export { endSessionsOf } from './accounts/user-sessions.ts';
export { createFirstAdmin, findUserByEmail } from './accounts/user.service.ts';
export { SYSTEM_ROLES, User } from './accounts/user.model.ts';
export { userRoutes } from './user.routes.ts';
export { invitationRetention } from './invitations/retention.ts';
