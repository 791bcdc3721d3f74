export { knownPeople, type KnownPerson } from './known-people.ts';
export { type InvitationLimits, invitationLimits } from './invitation-limits.ts';
export { joinAsHolder, joinAsNewHolder, openInvitation } from './acceptance.ts';
export {
  type AccountEnding,
  displace,
  endCredentials,
  endUnprovedHolding,
  forgetOpenLinks,
} from './account-ending.ts';
export { endSessionsOf } from './user-sessions.ts';
export { createFirstAdmin, findUserByEmail } from './user.service.ts';
export { SYSTEM_ROLES, User } from './user.model.ts';
export { userRoutes } from './user.routes.ts';
export { invitationRetention } from './retention.ts';
