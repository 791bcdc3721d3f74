export { lockOwner, type Owner, whereOwnerAccessible } from './owner.queries.ts';
export { ownerOf } from './owner.service.ts';
