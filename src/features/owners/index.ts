export { lockOwner, type Owner, whereOwnerAccessible } from './owner.queries.ts';
export { ownerOf, reachesOwner } from './owner.service.ts';
