BEGIN TRANSACTION;
CREATE TABLE allocations (
	id INTEGER NOT NULL, 
	resource_provider_id INTEGER NOT NULL, 
	consumer_id INTEGER NOT NULL, 
	resource_class_id INTEGER NOT NULL, 
	used BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (consumer_id, resource_provider_id, resource_class_id), 
	FOREIGN KEY(resource_provider_id) REFERENCES resource_providers (id), 
	FOREIGN KEY(consumer_id) REFERENCES consumers (id), 
	FOREIGN KEY(resource_class_id) REFERENCES resource_classes (id)
);
INSERT INTO "allocations" VALUES(1,1,2,4,3072);
INSERT INTO "allocations" VALUES(2,1,2,5,1);
INSERT INTO "allocations" VALUES(3,2,12,4,1024);
INSERT INTO "allocations" VALUES(4,2,12,5,1);
INSERT INTO "allocations" VALUES(5,3,20,4,3072);
INSERT INTO "allocations" VALUES(6,3,20,5,1);
INSERT INTO "allocations" VALUES(7,4,36,4,3072);
INSERT INTO "allocations" VALUES(8,4,36,5,1);
INSERT INTO "allocations" VALUES(9,5,10,4,3072);
INSERT INTO "allocations" VALUES(10,5,10,5,1);
INSERT INTO "allocations" VALUES(11,6,5,4,3072);
INSERT INTO "allocations" VALUES(12,6,5,5,1);
INSERT INTO "allocations" VALUES(13,1,15,4,1024);
INSERT INTO "allocations" VALUES(14,1,15,5,4);
INSERT INTO "allocations" VALUES(15,7,15,2,20480);
INSERT INTO "allocations" VALUES(20,1,4,1,41216);
INSERT INTO "allocations" VALUES(21,1,4,3,1);
INSERT INTO "allocations" VALUES(22,1,4,4,4096);
INSERT INTO "allocations" VALUES(23,1,4,5,1);
INSERT INTO "allocations" VALUES(24,3,4,1,41216);
INSERT INTO "allocations" VALUES(25,3,4,3,1);
INSERT INTO "allocations" VALUES(26,4,24,1,20608);
INSERT INTO "allocations" VALUES(27,4,24,3,1);
INSERT INTO "allocations" VALUES(28,4,24,5,4);
INSERT INTO "allocations" VALUES(29,5,24,1,20608);
INSERT INTO "allocations" VALUES(30,5,24,3,1);
INSERT INTO "allocations" VALUES(31,5,34,4,2048);
INSERT INTO "allocations" VALUES(32,5,34,5,1);
INSERT INTO "allocations" VALUES(33,8,34,2,20480);
INSERT INTO "allocations" VALUES(34,2,1,4,4096);
INSERT INTO "allocations" VALUES(35,2,1,5,4);
INSERT INTO "allocations" VALUES(36,8,1,2,61440);
INSERT INTO "allocations" VALUES(37,5,8,4,1024);
INSERT INTO "allocations" VALUES(38,5,8,5,1);
INSERT INTO "allocations" VALUES(39,7,8,2,10240);
INSERT INTO "allocations" VALUES(40,3,29,1,10496);
INSERT INTO "allocations" VALUES(41,3,29,3,1);
INSERT INTO "allocations" VALUES(42,3,29,4,1024);
INSERT INTO "allocations" VALUES(43,3,29,5,1);
INSERT INTO "allocations" VALUES(44,4,29,1,10496);
INSERT INTO "allocations" VALUES(45,4,29,3,1);
INSERT INTO "allocations" VALUES(46,2,19,1,46336);
INSERT INTO "allocations" VALUES(47,2,19,3,1);
INSERT INTO "allocations" VALUES(48,2,19,4,512);
INSERT INTO "allocations" VALUES(49,2,19,5,1);
INSERT INTO "allocations" VALUES(50,4,19,1,46336);
INSERT INTO "allocations" VALUES(51,4,19,3,1);
INSERT INTO "allocations" VALUES(55,5,30,1,10368);
INSERT INTO "allocations" VALUES(56,5,30,3,1);
INSERT INTO "allocations" VALUES(57,5,30,4,1024);
INSERT INTO "allocations" VALUES(58,5,30,5,4);
INSERT INTO "allocations" VALUES(59,1,30,1,10368);
INSERT INTO "allocations" VALUES(60,1,30,3,1);
INSERT INTO "allocations" VALUES(61,1,33,4,2048);
INSERT INTO "allocations" VALUES(62,1,33,5,1);
INSERT INTO "allocations" VALUES(63,7,33,2,5120);
INSERT INTO "allocations" VALUES(64,5,7,1,20608);
INSERT INTO "allocations" VALUES(65,5,7,3,1);
INSERT INTO "allocations" VALUES(66,5,7,4,1024);
INSERT INTO "allocations" VALUES(67,5,7,5,1);
INSERT INTO "allocations" VALUES(68,1,7,1,20608);
INSERT INTO "allocations" VALUES(69,1,7,3,1);
INSERT INTO "allocations" VALUES(70,4,6,1,41088);
INSERT INTO "allocations" VALUES(71,4,6,3,1);
INSERT INTO "allocations" VALUES(72,4,6,5,1);
INSERT INTO "allocations" VALUES(73,3,6,1,41088);
INSERT INTO "allocations" VALUES(74,3,6,3,1);
INSERT INTO "allocations" VALUES(75,3,27,4,4096);
INSERT INTO "allocations" VALUES(76,3,27,5,1);
INSERT INTO "allocations" VALUES(77,8,27,2,25600);
INSERT INTO "allocations" VALUES(78,8,26,2,20480);
INSERT INTO "allocations" VALUES(79,7,31,2,10240);
INSERT INTO "allocations" VALUES(80,4,11,1,5248);
INSERT INTO "allocations" VALUES(81,4,11,3,1);
INSERT INTO "allocations" VALUES(82,4,11,4,1024);
INSERT INTO "allocations" VALUES(83,4,11,5,1);
INSERT INTO "allocations" VALUES(84,5,11,1,5248);
INSERT INTO "allocations" VALUES(85,5,11,3,1);
INSERT INTO "allocations" VALUES(86,7,18,2,10240);
INSERT INTO "allocations" VALUES(87,4,32,1,41088);
INSERT INTO "allocations" VALUES(88,4,32,3,1);
INSERT INTO "allocations" VALUES(89,4,32,5,2);
INSERT INTO "allocations" VALUES(90,2,32,1,41088);
INSERT INTO "allocations" VALUES(91,2,32,3,1);
INSERT INTO "allocations" VALUES(92,3,13,1,41088);
INSERT INTO "allocations" VALUES(93,3,13,3,1);
INSERT INTO "allocations" VALUES(94,3,13,5,1);
INSERT INTO "allocations" VALUES(95,2,13,1,41088);
INSERT INTO "allocations" VALUES(96,2,13,3,1);
INSERT INTO "allocations" VALUES(97,3,16,1,10368);
INSERT INTO "allocations" VALUES(98,3,16,3,1);
INSERT INTO "allocations" VALUES(99,3,16,4,4096);
INSERT INTO "allocations" VALUES(100,3,16,5,4);
INSERT INTO "allocations" VALUES(101,4,16,1,10368);
INSERT INTO "allocations" VALUES(102,4,16,3,1);
INSERT INTO "allocations" VALUES(103,2,35,1,82176);
INSERT INTO "allocations" VALUES(104,2,35,3,1);
INSERT INTO "allocations" VALUES(105,2,35,4,1024);
INSERT INTO "allocations" VALUES(106,2,35,5,4);
INSERT INTO "allocations" VALUES(107,5,35,1,82176);
INSERT INTO "allocations" VALUES(108,5,35,3,1);
INSERT INTO "allocations" VALUES(109,2,17,1,41088);
INSERT INTO "allocations" VALUES(110,2,17,3,1);
INSERT INTO "allocations" VALUES(111,3,17,1,41088);
INSERT INTO "allocations" VALUES(112,3,17,3,1);
INSERT INTO "allocations" VALUES(113,1,28,1,10368);
INSERT INTO "allocations" VALUES(114,1,28,3,1);
INSERT INTO "allocations" VALUES(115,1,28,4,512);
INSERT INTO "allocations" VALUES(116,1,28,5,4);
INSERT INTO "allocations" VALUES(117,3,28,1,10368);
INSERT INTO "allocations" VALUES(118,3,28,3,1);
INSERT INTO "allocations" VALUES(119,4,25,4,512);
INSERT INTO "allocations" VALUES(120,4,25,5,2);
INSERT INTO "allocations" VALUES(121,7,25,2,40960);
INSERT INTO "allocations" VALUES(122,5,3,1,46336);
INSERT INTO "allocations" VALUES(123,5,3,3,1);
INSERT INTO "allocations" VALUES(124,5,3,4,1024);
INSERT INTO "allocations" VALUES(125,5,3,5,1);
INSERT INTO "allocations" VALUES(126,2,3,1,46336);
INSERT INTO "allocations" VALUES(127,2,3,3,1);
INSERT INTO "allocations" VALUES(128,4,14,4,1024);
INSERT INTO "allocations" VALUES(129,4,14,5,1);
INSERT INTO "allocations" VALUES(130,8,14,2,40960);
INSERT INTO "allocations" VALUES(131,3,9,1,20608);
INSERT INTO "allocations" VALUES(132,3,9,3,1);
INSERT INTO "allocations" VALUES(133,3,9,4,512);
INSERT INTO "allocations" VALUES(134,3,9,5,4);
INSERT INTO "allocations" VALUES(135,4,9,1,20608);
INSERT INTO "allocations" VALUES(136,4,9,3,1);
INSERT INTO "allocations" VALUES(137,5,21,1,10368);
INSERT INTO "allocations" VALUES(138,5,21,3,1);
INSERT INTO "allocations" VALUES(139,5,21,4,2048);
INSERT INTO "allocations" VALUES(140,5,21,5,1);
INSERT INTO "allocations" VALUES(141,3,21,1,10368);
INSERT INTO "allocations" VALUES(142,3,21,3,1);
INSERT INTO "allocations" VALUES(145,1,23,1,41088);
INSERT INTO "allocations" VALUES(146,1,23,3,1);
INSERT INTO "allocations" VALUES(147,5,23,1,41088);
INSERT INTO "allocations" VALUES(148,5,23,3,1);
INSERT INTO "allocations" VALUES(149,2,22,4,512);
INSERT INTO "allocations" VALUES(150,2,22,5,1);
INSERT INTO "allocations" VALUES(151,7,22,2,5120);
CREATE TABLE consumers (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36) NOT NULL, 
	name VARCHAR(600) NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	generation INTEGER NOT NULL, 
	expires FLOAT, 
	promised TEXT, 
	beyond BOOLEAN NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (uuid)
);
INSERT INTO "consumers" VALUES(1,'00613b4c-71ab-5884-8203-77ed048c3f90','cluster/inst4.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(2,'102885ed-b1bb-5c41-8384-a493a55fd43f','cluster/node4.example.org','node',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(3,'15e8e497-3e91-5fb7-b33a-3ee1cedf65f9','cluster/inst17.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(4,'163b8004-e77c-5771-b451-29ef86f7de36','cluster/inst18.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(5,'1b496873-7723-572c-9398-477a4ab260eb','cluster/node2.example.org','node',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(6,'23841174-7571-5510-999a-7ac50ed09504','cluster/inst15.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(7,'431735a1-82d8-5e45-9c30-c0b431451345','cluster/inst5.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(8,'4b7aa8de-f443-5758-9862-8556b53a8321','cluster/inst19.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(9,'51492732-0142-5ed9-97cd-498236fc22a6','cluster/inst13.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(10,'575b98ab-7c14-565e-9f1b-70535d0dc21a','cluster/node1.example.org','node',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(11,'61327c9a-0b5f-5d10-bd0b-040a5f61666d','cluster/inst8.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(12,'619e2923-3447-5154-ba3e-fe24efff1af7','cluster/node5.example.org','node',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(13,'69bb0d09-5fe0-54c0-8343-c1f79a5c3757','cluster/inst26.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(14,'708cf670-d980-5d93-887a-46e6324aa656','cluster/inst10.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(15,'7a94d7b6-f77f-586b-8d63-e3db67d3aeec','cluster/inst16.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(16,'8b600dde-0e39-5bac-8352-acada796c19c','cluster/inst1.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(17,'a7669b7f-6495-5355-bf96-e24a195898bf','cluster/inst24.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(18,'afe04658-a78a-5769-8b46-65b0e406c900','cluster/inst2.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(19,'b113e4f6-430f-5357-bc62-c7800ee8bf1b','cluster/inst22.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(20,'b1a40dc6-da1f-5f2f-89ff-3fedb20a4e94','cluster/node3.example.org','node',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(21,'b2c0d464-c4b3-5bc5-bcb7-c725dd475a1d','cluster/inst21.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(22,'b6cf33f3-98c0-58ef-a7af-38737b858f5a','cluster/inst11.example.org','instance',2,NULL,NULL,0);
INSERT INTO "consumers" VALUES(23,'bbd31b11-2bb1-539b-8674-655d4b93394c','cluster/inst25.example.org','instance',2,NULL,NULL,0);
INSERT INTO "consumers" VALUES(24,'d687d41d-8c1c-5eda-beb7-2b4acb9381ee','cluster/inst6.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(25,'d966a872-2265-5835-a260-fc1aecfe742e','cluster/inst23.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(26,'ddc55921-2195-5298-9bfa-7a72949fb0d9','cluster/inst20.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(27,'df4368d6-9935-5579-acbe-7e771807d6f6','cluster/inst27.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(28,'e085bf61-7909-559b-9e22-53b238f3117e','cluster/inst14.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(29,'ecc52fb1-2f51-571f-a32f-b57908444508','cluster/inst12.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(30,'edc822b1-29b4-5151-98eb-53168d11b7df','cluster/inst30.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(31,'eeba1820-93d8-5186-9907-87d6a6a14587','cluster/inst29.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(32,'eeeb37b1-a3ab-5c0e-9466-66e1bc7aaf4c','cluster/inst28.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(33,'ef48397f-dc4d-549a-bf0b-8287405743bd','cluster/inst7.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(34,'f9f5d235-ac89-51a0-a05e-afa6db5a1f1e','cluster/inst9.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(35,'fb2648f5-13d7-5710-81e2-60b8de97824e','cluster/inst3.example.org','instance',1,NULL,NULL,0);
INSERT INTO "consumers" VALUES(36,'fd220416-d016-576f-9489-76058e484455','cluster/node6.example.org','node',1,NULL,NULL,0);
CREATE TABLE documents (
	cluster VARCHAR(255) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	writer VARCHAR(1000) NOT NULL, 
	content TEXT, 
	PRIMARY KEY (cluster, name)
);
CREATE TABLE inventories (
	id INTEGER NOT NULL, 
	resource_provider_id INTEGER NOT NULL, 
	resource_class_id INTEGER NOT NULL, 
	total BIGINT NOT NULL, 
	reserved BIGINT NOT NULL, 
	min_unit BIGINT NOT NULL, 
	max_unit BIGINT, 
	step_size BIGINT NOT NULL, 
	allocation_ratio FLOAT NOT NULL, tagged BOOLEAN DEFAULT 0 NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (resource_provider_id, resource_class_id), 
	FOREIGN KEY(resource_provider_id) REFERENCES resource_providers (id), 
	FOREIGN KEY(resource_class_id) REFERENCES resource_classes (id)
);
INSERT INTO "inventories" VALUES(1,1,1,451638,0,1,NULL,1,1.0,0);
INSERT INTO "inventories" VALUES(2,1,3,4,0,1,NULL,1,32.0,0);
INSERT INTO "inventories" VALUES(3,1,4,19419,0,1,NULL,1,1.0,0);
INSERT INTO "inventories" VALUES(4,1,5,32,0,1,NULL,1,4.0,0);
INSERT INTO "inventories" VALUES(5,2,1,451638,0,1,NULL,1,1.0,0);
INSERT INTO "inventories" VALUES(6,2,3,4,0,1,NULL,1,32.0,0);
INSERT INTO "inventories" VALUES(7,2,4,17371,0,1,NULL,1,1.0,0);
INSERT INTO "inventories" VALUES(8,2,5,32,0,1,NULL,1,4.0,0);
INSERT INTO "inventories" VALUES(9,3,1,677458,0,1,NULL,1,1.0,0);
INSERT INTO "inventories" VALUES(10,3,3,4,0,1,NULL,1,32.0,0);
INSERT INTO "inventories" VALUES(11,3,4,27593,0,1,NULL,1,1.0,0);
INSERT INTO "inventories" VALUES(12,3,5,48,0,1,NULL,1,4.0,0);
INSERT INTO "inventories" VALUES(13,4,1,677458,0,1,NULL,1,1.0,0);
INSERT INTO "inventories" VALUES(14,4,3,4,0,1,NULL,1,32.0,0);
INSERT INTO "inventories" VALUES(15,4,4,27593,0,1,NULL,1,1.0,0);
INSERT INTO "inventories" VALUES(16,4,5,48,0,1,NULL,1,4.0,0);
INSERT INTO "inventories" VALUES(17,5,1,451638,0,1,NULL,1,1.0,0);
INSERT INTO "inventories" VALUES(18,5,3,4,0,1,NULL,1,32.0,0);
INSERT INTO "inventories" VALUES(19,5,4,19419,0,1,NULL,1,1.0,0);
INSERT INTO "inventories" VALUES(20,5,5,32,0,1,NULL,1,4.0,0);
INSERT INTO "inventories" VALUES(21,6,1,451638,0,1,NULL,1,1.0,0);
INSERT INTO "inventories" VALUES(22,6,3,4,0,1,NULL,1,32.0,0);
INSERT INTO "inventories" VALUES(23,6,4,19419,0,1,NULL,1,1.0,0);
INSERT INTO "inventories" VALUES(24,6,5,32,0,1,NULL,1,4.0,0);
INSERT INTO "inventories" VALUES(25,2,6,4,0,1,NULL,1,1.0,1);
CREATE TABLE ledger_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT ledger_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "ledger_version" VALUES('0003');
CREATE TABLE resource_classes (
	id INTEGER NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name)
);
INSERT INTO "resource_classes" VALUES(1,'CUSTOM_DISK_MIB_LVM_VG_XENVG');
INSERT INTO "resource_classes" VALUES(2,'CUSTOM_DISK_MIB_POOL');
INSERT INTO "resource_classes" VALUES(3,'CUSTOM_SPINDLES');
INSERT INTO "resource_classes" VALUES(4,'MEMORY_MB');
INSERT INTO "resource_classes" VALUES(5,'VCPU');
INSERT INTO "resource_classes" VALUES(6,'CUSTOM_GPU');
CREATE TABLE resource_providers (
	id INTEGER NOT NULL, 
	uuid VARCHAR(36) NOT NULL, 
	name VARCHAR(600) NOT NULL, 
	generation INTEGER NOT NULL, 
	can_host BOOLEAN NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (uuid)
);
INSERT INTO "resource_providers" VALUES(1,'102885ed-b1bb-5c41-8384-a493a55fd43f','cluster/node4.example.org',7,1);
INSERT INTO "resource_providers" VALUES(2,'619e2923-3447-5154-ba3e-fe24efff1af7','cluster/node5.example.org',5,1);
INSERT INTO "resource_providers" VALUES(3,'b1a40dc6-da1f-5f2f-89ff-3fedb20a4e94','cluster/node3.example.org',1,1);
INSERT INTO "resource_providers" VALUES(4,'fd220416-d016-576f-9489-76058e484455','cluster/node6.example.org',3,1);
INSERT INTO "resource_providers" VALUES(5,'575b98ab-7c14-565e-9f1b-70535d0dc21a','cluster/node1.example.org',2,1);
INSERT INTO "resource_providers" VALUES(6,'1b496873-7723-572c-9398-477a4ab260eb','cluster/node2.example.org',4,1);
INSERT INTO "resource_providers" VALUES(7,'19365b4c-bbde-5445-87c6-2522325d937f','cluster/ext',2,0);
INSERT INTO "resource_providers" VALUES(8,'6a0a78d2-bd76-54e4-be9c-0bafe2089671','cluster/sharedfile//srv/ganeti/shared-file-storage',1,0);
CREATE INDEX allocations_by_provider ON allocations (resource_provider_id, resource_class_id, used);
COMMIT;
PRAGMA user_version = 0;
