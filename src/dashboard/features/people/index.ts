export { peoplePages } from './people.pages.ts';
export { PermissionChoice } from './permission-choice.tsx';
