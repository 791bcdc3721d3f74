export { PermissionChoice } from './permission-choice.tsx';
export { peoplePages } from './people.pages.ts';
