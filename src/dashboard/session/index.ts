export { refusalOf, useRefusal, type Requirement } from './permissions.ts';
export {
  beginSession,
  openSession,
  readMe,
  signOut,
  useMe,
  useSession,
  type Me,
  type SessionState,
} from './session.ts';
