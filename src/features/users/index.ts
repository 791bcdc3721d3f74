export { knownPeople, type KnownPerson } from './known-people.ts';
export { openInvitation, takeInvitation } from './invitation.service.ts';
export { endSessionsOf } from './user-sessions.ts';
export { createFirstAdmin, findUserByEmail } from './user.service.ts';
export { SYSTEM_ROLES, User } from './user.model.ts';
export { userRoutes } from './user.routes.ts';
